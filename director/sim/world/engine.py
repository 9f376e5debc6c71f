"""One deployment's engines in one region, as a fluid of continuous batching.

A request waits for a slot, is prefilled by one replica, and then decodes one token a step beside everybody else in the
batch. Nothing here happens per token: prefill and decode each have a virtual clock that advances at a rate which is
constant between two changes of the batch. A request ends when its clock reaches a target that is known when it starts,
so a heap of targets gives the next change exactly, and a request costs three heap operations in all.

    decode clock, steps/s    (1 − prefill_share · busy) ÷ step(batch)     busy: the part of the replicas that prefill
    prefill clock, tokens/s  prefill_tokens_per_s · prefill_share         whole speed while nothing decodes
    step(batch)              empty + (full − empty) · batch ÷ max_running   a step grows with its batch

Replicas are alike and the region's own gateway spreads requests evenly, so one batch size stands for all of them.
KV occupancy is every admitted prompt plus what each decoding request has generated; when it overflows, the request
that came last is put back and computes everything again, as vLLM's preemption does.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from heapq import heappop, heappush
from typing import Literal

from director.sim.scenario import EngineSpec

Stage = Literal["waiting", "queued", "prefill", "decode", "done", "failed"]
_SLACK = 1e-9


class Work:
    """One request inside a region."""

    __slots__ = (
        "arrived_s", "cached", "done_s", "entry", "first_token_s", "generated", "number", "overhead_s", "prompt",
        "session", "stage", "stream", "v_start", "wait_prefill",
    )  # fmt: skip

    def __init__(
        self, number: int, prompt: float, generated: float, arrived_s: float, session: int, stream: int
    ) -> None:
        self.number = number
        self.prompt = prompt
        """Tokens."""
        self.generated = generated
        """Tokens still to generate."""
        self.arrived_s = arrived_s
        self.session = session
        """-1: none."""
        self.stream = stream
        self.overhead_s = 0.0
        """What the client waited outside the region: round trips, failed attempts."""
        self.cached = 0.0
        """Prompt tokens that a warm prefix cache saves."""
        self.stage: Stage = "waiting"
        self.entry: tuple[float, int, Work] | None = None
        """Its place in the heap of its stage; any other entry that names it is stale."""
        self.v_start = 0.0
        self.wait_prefill = 0.0
        """Tokens to prefill."""
        self.first_token_s = -1.0
        self.done_s = -1.0


class Counters:
    """Monotonic, like an engine's own metrics. An agent reports differences."""

    __slots__ = (
        "arrived", "cached_tokens", "completed", "completed_tokens", "generated_tokens", "preempted", "prompt_tokens",
        "restarted", "slot_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.arrived = 0
        self.completed = 0
        self.completed_tokens = 0.0
        self.prompt_tokens = 0.0
        self.generated_tokens = 0.0
        self.cached_tokens = 0.0
        self.preempted = 0
        self.restarted = 0
        self.slot_seconds = 0.0


class Engine:
    """All replicas of one model version in one region."""

    def __init__(self, spec: EngineSpec, replicas: int) -> None:
        self.spec = spec
        self.replicas = replicas
        self.counters = Counters()
        self.first_tokens: list[Work] = []
        """Works that got their first token since the list was last emptied."""
        self.finished: list[Work] = []
        self.now_s = 0.0
        self._waiting: deque[Work] = deque()
        self._queued: deque[Work] = deque()
        self._prefill: list[tuple[float, int, Work]] = []
        self._decode: list[tuple[float, int, Work]] = []
        self._latest: list[Work] = []
        """Decoding works in order of start, stale ones included: preemption takes the last."""
        self._prefilling = self._decoding = 0
        self._v_prefill = self._v_decode = 0.0
        self._rate_prefill = self._rate_decode = 0.0
        self._kv_prompts = self._v_starts = 0.0
        self._cache: OrderedDict[int, float] = OrderedDict()
        self._cache_tokens = 0.0
        self._entries = 0
        self._set_rates()

    # -- figures ----------------------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._queued) + self._prefilling + self._decoding

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def slots(self) -> int:
        return self.replicas * self.spec.max_running

    @property
    def kv_total(self) -> float:
        return self.replicas * self.spec.kv_tokens

    @property
    def kv_used(self) -> float:
        return self._kv_prompts + self._decoding * self._v_decode - self._v_starts

    @property
    def utilisation(self) -> float:
        """Requests inside, waiting ones included, for each slot; 0 where there are no slots and nobody waits."""
        inside = self.running + len(self._waiting)
        return inside / self.slots if self.slots else float(inside > 0) * 9.99

    # -- what happens to it -----------------------------------------------------------------------------------------

    def submit(self, work: Work, now_s: float) -> None:
        self.advance(now_s)
        self.counters.arrived += 1
        work.arrived_s = now_s
        if work.session >= 0 and (cached := self._cache.get(work.session)):
            work.cached = min(cached, work.prompt * self.spec.prefix_share)
        work.wait_prefill = work.prompt - work.cached
        self._waiting.append(work)
        self._admit()

    def set_replicas(self, replicas: int, now_s: float) -> None:
        """Scale at once. What ran on replicas that went starts again on the others, as an in-region gateway retries."""
        self.advance(now_s)
        lost = 1.0 - replicas / self.replicas if replicas < self.replicas else 0.0
        self.replicas = replicas
        if lost:
            self._restart(lost)
        self._admit()

    def fail_all(self, now_s: float) -> list[Work]:
        """The region goes dark: everything inside is lost, its caches too."""
        self.advance(now_s)
        failed = [*self._waiting, *self._inside()]
        for work in failed:
            work.stage, work.entry = "failed", None
        self._waiting.clear()
        self._queued.clear()
        self._prefill, self._decode, self._latest = [], [], []
        self._prefilling = self._decoding = 0
        self._kv_prompts = self._v_starts = 0.0
        self._cache.clear()
        self._cache_tokens = 0.0
        self._set_rates()
        return failed

    def advance(self, to_s: float) -> None:
        """Let time pass until `to_s`, through every change of the batch in between."""
        now_s = self.now_s
        while now_s < to_s:
            prefill, decode = self._prefill, self._decode
            while prefill and prefill[0][2].entry is not prefill[0]:
                heappop(prefill)
            while decode and decode[0][2].entry is not decode[0]:
                heappop(decode)
            span_s, change = to_s - now_s, 0
            if prefill and (until_s := (prefill[0][0] - self._v_prefill) / self._rate_prefill) <= span_s:
                span_s, change = until_s, 1
            if decode and (until_s := (decode[0][0] - self._v_decode) / self._rate_decode) <= span_s:
                span_s, change = until_s, 2
            if span_s > 0.0:
                steps = span_s * self._rate_decode
                self._v_prefill += span_s * self._rate_prefill
                self._v_decode += steps
                self.counters.generated_tokens += steps * self._decoding
                self.counters.slot_seconds += span_s * (len(self._queued) + self._prefilling + self._decoding)
                now_s += span_s
            if change == 0:
                break
            self.now_s = now_s
            if change == 1:
                self._first_token(heappop(prefill)[2])
            else:
                self._finish(heappop(decode)[2])
        self.now_s = to_s
        if self._decoding and self.kv_used > self.kv_total:
            self._preempt()

    # -- stages -----------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Waiting → a slot → prefill, as far as slots, KV and replicas go."""
        if self._waiting or self._queued:
            self._seat()
        self._set_rates()

    def _seat(self) -> None:
        slots, kv_total, waiting = self.slots, self.kv_total * self.spec.kv_admit, self._waiting
        while waiting and (running := self.running) < slots:
            work = waiting[0]
            if running and self.kv_used + work.prompt > kv_total:
                break
            waiting.popleft()
            work.stage = "queued"
            self._kv_prompts += work.prompt
            self._queued.append(work)
        while self._queued and self._prefilling < self.replicas:
            work = self._queued.popleft()
            work.stage = "prefill"
            self._prefilling += 1
            self._push(self._prefill, self._v_prefill + max(work.wait_prefill, 1.0), work)

    def _prefilled(self, work: Work) -> None:
        self._prefilling -= 1
        self.counters.prompt_tokens += work.prompt
        self.counters.cached_tokens += work.cached
        if work.first_token_s < 0.0:
            work.first_token_s = self.now_s
            self.first_tokens.append(work)

    def _first_token(self, work: Work) -> None:
        self._prefilled(work)
        work.stage, work.v_start = "decode", self._v_decode
        self._decoding += 1
        self._v_starts += work.v_start
        self._latest.append(work)
        self._push(self._decode, work.v_start + work.generated, work)
        self._admit()

    def _finish(self, work: Work) -> None:
        self._leave_decode(work)
        work.stage, work.entry, work.done_s = "done", None, self.now_s
        self.counters.completed += 1
        self.counters.completed_tokens += work.prompt + work.generated
        self.finished.append(work)
        if work.session >= 0:
            self._remember(work)
        if len(self._latest) > 4 * self._decoding + 64:
            self._latest = [each for each in self._latest if each.stage == "decode"]
        self._admit()

    def _preempt(self) -> None:
        while self.kv_used > self.kv_total and self._latest:
            work = self._latest.pop()
            if work.stage != "decode":
                continue
            self.counters.preempted += 1
            self._start_again(work)
        self._set_rates()

    def _restart(self, lost: float) -> None:
        """Take every so-manieth of what runs back to the head of the queue."""
        due = 0.0
        for work in self._inside():
            due += lost
            if due < 1.0:
                continue
            due -= 1.0
            self.counters.restarted += 1
            self._start_again(work)
        self._cache_tokens *= 1.0 - lost
        for session in list(self._cache)[: int(len(self._cache) * lost)]:
            del self._cache[session]

    def _start_again(self, work: Work) -> None:
        """Back to the head of the queue; what it had generated is prefilled with its prompt."""
        work.cached = 0.0
        if work.stage == "decode":
            made = min(max(self._v_decode - work.v_start, 0.0), work.generated - 1.0)
            self._leave_decode(work)
            work.prompt += made
            work.generated -= made
        elif work.stage == "prefill":
            self._prefilling -= 1
            self._kv_prompts -= work.prompt
        else:
            self._queued.remove(work)
            self._kv_prompts -= work.prompt
        work.stage, work.entry, work.wait_prefill = "waiting", None, work.prompt
        self._waiting.appendleft(work)

    def _leave_decode(self, work: Work) -> None:
        self._decoding -= 1
        self._v_starts -= work.v_start
        self._kv_prompts -= work.prompt

    def _inside(self) -> list[Work]:
        prefilling = [entry[2] for entry in self._prefill if entry[2].entry is entry]
        decoding = [entry[2] for entry in self._decode if entry[2].entry is entry]
        return [*self._queued, *sorted(prefilling + decoding, key=_by_number)]

    def _push(self, heap: list[tuple[float, int, Work]], target: float, work: Work) -> None:
        self._entries += 1
        work.entry = (target, self._entries, work)
        heappush(heap, work.entry)

    def _set_rates(self) -> None:
        spec = self.spec
        if not self.replicas:
            # Nothing moves; what is inside waits for a replica to come back.
            self._rate_prefill = self._rate_decode = _SLACK
            return
        share = spec.prefill_share
        busy = self._prefilling / self.replicas
        batch_ratio = self._decoding / (self.replicas * spec.max_running)
        step_ms = spec.step_ms.empty + (spec.step_ms.full - spec.step_ms.empty) * batch_ratio
        self._rate_prefill = spec.prefill_tokens_per_s * (share if self._decoding else 1.0)
        self._rate_decode = (1.0 - share * busy) * 1000.0 / step_ms

    # -- warm prefixes ----------------------------------------------------------------------------------------------

    def _remember(self, work: Work) -> None:
        """Keep the session's prefix, and forget those that were used longest ago."""
        tokens = work.prompt + work.generated
        self._cache_tokens += tokens - self._cache.pop(work.session, 0.0)
        self._cache[work.session] = tokens
        limit = self.kv_total * self.spec.cache_share
        while self._cache_tokens > limit and self._cache:
            self._cache_tokens -= self._cache.popitem(last=False)[1]


def capacity_requests_per_s(spec: EngineSpec, replicas: int, prompt: float, generated: float) -> float:
    """What the engines sustain with every slot taken, for requests of these mean lengths (tokens).

    A request holds its slot while it is prefilled and while it decodes, so the batch that decodes is what prefill
    leaves of the slots, and decode's clock is slowed by the time that prefill takes: λ·generated = batch · clock,
    solved for λ.
    """
    slots = _slots_held(spec, prompt, generated)

    def surplus(rate: float) -> float:
        prefill_time = rate * prompt / spec.prefill_tokens_per_s
        if prefill_time >= spec.prefill_share:
            return -1.0
        batch = slots - prefill_time / spec.prefill_share
        return batch * (1.0 - prefill_time) * 1000.0 / _step_ms(spec, batch) - rate * generated

    low, high = 0.0, spec.prefill_tokens_per_s / prompt
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if surplus(middle) > 0.0 else (low, middle)
    return low * replicas


def decode_capacity_requests_per_s(spec: EngineSpec, prompt: float, generated: float) -> float:
    """What one replica sustains that does nothing but decode, with every slot taken."""
    batch = _slots_held(spec, prompt, generated)
    return batch * 1000.0 / _step_ms(spec, batch) / generated


def _slots_held(spec: EngineSpec, prompt: float, generated: float) -> float:
    """How many requests of these mean lengths a replica holds: as its slots or its KV allow."""
    return min(float(spec.max_running), spec.kv_tokens / (prompt + generated / 2.0))


def _step_ms(spec: EngineSpec, batch: float) -> float:
    return spec.step_ms.empty + (spec.step_ms.full - spec.step_ms.empty) * batch / spec.max_running


def _by_number(work: Work) -> int:
    return work.number
