"""A continuous-batching engine without a GPU: requests wait, are prefilled one after another, and decode together.

The more run, the slower each goes and the more they do together, up to a limit: one of n requests decodes
`decode_alone_tokens_per_s` ÷ (1 + n ÷ `batch_half`) tokens a second. Time is an argument; nothing here reads a clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

from msgspec import Struct, field

TTFT_BOUNDS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0)

THROUGHPUT_S = 2.0
"""What the throughput gauge is averaged over."""


class EngineSpeed(Struct, frozen=True):
    """How fast, and how many at once. Defaults make a server of some 5 conversational requests a second."""

    max_running: int = 32
    decode_alone_tokens_per_s: float = 60.0
    batch_half: float = 48.0
    prefill_tokens_per_s: float = 48_000.0
    kv_tokens: int = 98_304
    waiting_max: int = 96
    """Beyond it the server answers 503: an endless queue helps nobody."""
    kv_block_tokens: int = 16


class Job(Struct):
    """One request inside an engine. `done` is called once, with whether it was served to its end."""

    prompt_tokens: int
    generate_tokens: int
    done: Callable[[bool], None]
    adapter: str | None = None
    arrived_s: float = 0.0
    prefill_left: float = 0.0
    generated: float = 0.0
    first_token_s: float | None = None

    @property
    def kv_tokens(self) -> float:
        return self.prompt_tokens + self.generated


class EngineCounters(Struct):
    """Counted since the process began, as an engine's counters are."""

    finished: int = 0
    aborted: int = 0
    prompt_tokens: int = 0
    """Of prompts prefilled."""
    generated_tokens: float = 0.0
    finished_prompt_tokens: int = 0
    finished_generated_tokens: int = 0
    ttft_buckets: list[int] = field(default_factory=lambda: [0] * (len(TTFT_BOUNDS_S) + 1))
    ttft_sum_s: float = 0.0


class BatchingEngine:
    def __init__(self, speed: EngineSpeed, now_s: float, born_at_s: float = 0.0) -> None:
        """`now_s` on the clock that `advance` is called with; `born_at_s` is the wall clock's, for what is exposed."""
        self.speed = speed
        self.born_at_s = born_at_s
        self.running: list[Job] = []
        self.waiting: deque[Job] = deque()
        self.counters = EngineCounters()
        self.generating_tokens_per_s = 0.0
        """Smoothed over a few seconds."""
        self._at_s = now_s

    @property
    def kv_usage(self) -> float:
        return min(1.0, sum(job.kv_tokens for job in self.running) / self.speed.kv_tokens)

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting

    def submit(self, job: Job, now_s: float) -> bool:
        """False when the queue is full: the job was not taken."""
        if len(self.waiting) >= self.speed.waiting_max:
            return False
        job.arrived_s = now_s
        job.prefill_left = float(job.prompt_tokens)
        self.waiting.append(job)
        self.advance(now_s)
        return True

    def abort(self, job: Job) -> None:
        """The client left: its place is free at once."""
        if job in self.running:
            self.running.remove(job)
        elif job in self.waiting:
            self.waiting.remove(job)
        else:
            return
        self.counters.aborted += 1

    def fail_all(self) -> None:
        """The process dies with everything in it."""
        jobs = [*self.running, *self.waiting]
        self.running.clear()
        self.waiting.clear()
        for job in jobs:
            job.done(False)

    def advance(self, now_s: float) -> None:
        """Decode and prefill up to `now_s`. Call it every tenth of a second or so."""
        elapsed_s = max(0.0, now_s - self._at_s)
        self._at_s = max(self._at_s, now_s)
        if elapsed_s > 0:
            self._prefill(elapsed_s, now_s)
            self._decode(elapsed_s, now_s)
        self._admit()

    def _prefill(self, elapsed_s: float, now_s: float) -> None:
        """One prompt after another, in the order they were admitted. A prompt's end is its first token."""
        budget = elapsed_s * self.speed.prefill_tokens_per_s
        for job in self.running:
            if job.prefill_left <= 0:
                continue
            used = min(budget, job.prefill_left)
            job.prefill_left -= used
            budget -= used
            if job.prefill_left > 0:
                return
            ends_s = now_s - budget / self.speed.prefill_tokens_per_s
            self._first_token(job, max(ends_s, job.arrived_s))

    def _first_token(self, job: Job, at_s: float) -> None:
        job.first_token_s = at_s
        job.generated = 1.0
        counters = self.counters
        counters.prompt_tokens += job.prompt_tokens
        counters.generated_tokens += 1
        ttft_s = at_s - job.arrived_s
        counters.ttft_sum_s += ttft_s
        at = next((i for i, bound in enumerate(TTFT_BOUNDS_S) if ttft_s <= bound), len(TTFT_BOUNDS_S))
        counters.ttft_buckets[at] += 1

    def _decode(self, elapsed_s: float, now_s: float) -> None:
        before = self.counters.generated_tokens
        self._decode_jobs(elapsed_s, now_s)
        rate = (self.counters.generated_tokens - before) / elapsed_s
        self.generating_tokens_per_s += (1.0 - math.exp(-elapsed_s / THROUGHPUT_S)) * (
            rate - self.generating_tokens_per_s
        )

    def _decode_jobs(self, elapsed_s: float, now_s: float) -> None:
        decoding = [job for job in self.running if job.first_token_s is not None]
        if not decoding:
            return
        each_per_s = self.speed.decode_alone_tokens_per_s / (1.0 + len(decoding) / self.speed.batch_half)
        finished = []
        for job in decoding:
            since_s = min(elapsed_s, now_s - (job.first_token_s or now_s))
            tokens = min(each_per_s * since_s, max(0.0, job.generate_tokens - job.generated))
            job.generated += tokens
            self.counters.generated_tokens += tokens
            if job.generated >= job.generate_tokens - 1e-9:
                finished.append(job)
        for job in finished:
            self._finish(job)

    def _finish(self, job: Job) -> None:
        self.running.remove(job)
        self.counters.finished += 1
        self.counters.finished_prompt_tokens += job.prompt_tokens
        self.counters.finished_generated_tokens += job.generate_tokens
        job.done(True)

    def _admit(self) -> None:
        """First come, first served, while there are a place and KV blocks for the prompt and its answer."""
        used = sum(job.prompt_tokens + job.generate_tokens for job in self.running)
        while self.waiting and len(self.running) < self.speed.max_running:
            job = self.waiting[0]
            needs = job.prompt_tokens + job.generate_tokens
            if self.running and used + needs > self.speed.kv_tokens:
                return
            used += needs
            self.running.append(self.waiting.popleft())
