"""Prefill and decode apart: two pools of replicas, and a request that passes from one to the other.

A prompt waits for a place in the prefill stage, is computed at a replica's whole speed, gives the first token there,
and goes on to the decode stage, where it waits again if every slot is taken. Decode is never slowed by prompts, and
what it preempts it computes again itself. Moving the KV costs nothing, and a full decode stage does not hold up
prefill: requests stand between the two, as decode's waiting ones.
"""

from __future__ import annotations

from msgspec import structs

from director.sim.scenario import Deployment, EngineSpec
from director.sim.world.engine import (
    Counters,
    Engine,
    Work,
    capacity_requests_per_s,
    decode_capacity_requests_per_s,
)


class PrefillStage(Engine):
    """Replicas that compute prompts. `handed` is what they are done with, and when."""

    def __init__(self, spec: EngineSpec, replicas: int) -> None:
        super().__init__(structs.replace(spec, max_running=spec.prefill_running), replicas)
        self.handed: list[tuple[float, Work]] = []

    def _first_token(self, work: Work) -> None:
        self._prefilled(work)
        self._kv_prompts -= work.prompt
        if work.session >= 0:
            self._remember(work)
        work.entry = None
        self.handed.append((self.now_s, work))
        self._admit()


class DecodeStage(Engine):
    """Replicas that take over requests whose prompts are computed."""

    def receive(self, work: Work, now_s: float) -> None:
        self.advance(now_s)
        work.stage, work.wait_prefill, work.cached = "waiting", 0.0, 0.0
        self._waiting.append(work)
        self._admit()


class StagedEngine:
    """Both stages of one model version in one region, with an `Engine`'s face. Slots and KV are those of decode."""

    def __init__(self, spec: EngineSpec, prefill_replicas: int, decode_replicas: int) -> None:
        self.spec = spec
        self.prefill = PrefillStage(spec, prefill_replicas)
        self.decode = DecodeStage(spec, decode_replicas)
        self._prefill_part = prefill_replicas / (prefill_replicas + decode_replicas)

    @property
    def replicas(self) -> int:
        """Of both stages; 0 while one of them has none, since nothing is served then."""
        prefill, decode = self.prefill.replicas, self.decode.replicas
        return prefill + decode if prefill and decode else 0

    @property
    def running(self) -> int:
        return self.decode.running

    @property
    def waiting(self) -> int:
        return self.prefill.waiting + self.decode.waiting

    @property
    def slots(self) -> int:
        return self.decode.slots

    @property
    def kv_total(self) -> float:
        return self.decode.kv_total

    @property
    def kv_used(self) -> float:
        return self.decode.kv_used

    @property
    def utilisation(self) -> float:
        """Of the worse stage, waiting requests included."""
        return max(self.prefill.utilisation, self.decode.utilisation)

    @property
    def first_tokens(self) -> list[Work]:
        return self.prefill.first_tokens

    @property
    def finished(self) -> list[Work]:
        return self.decode.finished

    @property
    def counters(self) -> Counters:
        """Prompts are counted where they are prefilled, the rest where it ends."""
        prefill, out = self.prefill.counters, Counters()
        for name in Counters.__slots__:
            setattr(out, name, getattr(self.decode.counters, name))
        out.arrived = prefill.arrived
        out.prompt_tokens, out.cached_tokens = prefill.prompt_tokens, prefill.cached_tokens
        out.restarted += prefill.restarted
        return out

    def submit(self, work: Work, now_s: float) -> None:
        self.advance(now_s)
        self.prefill.submit(work, now_s)

    def set_replicas(self, replicas: int, now_s: float) -> None:
        """Scale both stages alike: `replicas` is their sum."""
        self.advance(now_s)
        prefill = round(replicas * self._prefill_part)
        self.prefill.set_replicas(prefill, now_s)
        self.decode.set_replicas(replicas - prefill, now_s)

    def fail_all(self, now_s: float) -> list[Work]:
        self.advance(now_s)
        return [*self.prefill.fail_all(now_s), *self.decode.fail_all(now_s)]

    def advance(self, to_s: float) -> None:
        self.prefill.advance(to_s)
        for at_s, work in self.prefill.handed:
            self.decode.receive(work, at_s)
        self.prefill.handed.clear()
        self.decode.advance(to_s)


Serving = Engine | StagedEngine


def engine_of(spec: EngineSpec, deployment: Deployment) -> Serving:
    if deployment.prefill_replicas:
        return StagedEngine(spec, deployment.prefill_replicas, deployment.replicas)
    return Engine(spec, deployment.replicas)


def sustained_requests_per_s(spec: EngineSpec, deployment: Deployment, prompt: float, generated: float) -> float:
    """What it sustains, or its worse stage where they are apart, for requests of these mean lengths (tokens)."""
    if not deployment.prefill_replicas:
        return capacity_requests_per_s(spec, deployment.replicas, prompt, generated)
    prefill = deployment.prefill_replicas * spec.prefill_tokens_per_s / prompt
    return min(prefill, deployment.replicas * decode_capacity_requests_per_s(spec, prompt, generated))
