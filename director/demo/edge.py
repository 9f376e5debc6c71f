"""The demo's clients and their L7 in one: asks the director, goes where it is told, says how it went."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from director.demo.server import Completion
from director.demo.wire import Answer, Client, Unreachable
from director.demo.workload import Ask, Workload

ASK_TIMEOUT_S = 2.0
SERVE_TIMEOUT_S = 90.0
ATTEMPTS_MAX = 3
OUTCOMES_EVERY_S = 1.0

OutcomeKey = tuple[str, str, str, str]
"""(region, model, version, class)"""


class Chosen(Struct):
    """The part of a decision that a client needs."""

    region: str
    model: str
    version: str
    reason: str
    affinity: dict[str, object] = {}
    plan: dict[str, object] = {}


class Second(Struct):
    """What happened in one second, for the progress line."""

    asked: int = 0
    decided: int = 0
    regions: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    undecided: int = 0
    """The director did not answer, or not in a way that a client can use."""
    served: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    """Requests that no attempt served."""
    ask_ms: list[float] = field(default_factory=list)
    epoch: int = 0
    static: bool = False
    complaint: str = ""


class Edge:
    """`address` is the director's HTTP; `gateways` maps a region to its gateway's port on loopback."""

    def __init__(self, address: tuple[str, int], token: str, gateways: Mapping[str, int], workload: Workload) -> None:
        self._address = address
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._gateways = gateways
        self._workload = workload
        self._client = Client()
        self._outcomes: Counter[OutcomeKey] = Counter()
        self._retry_after_s: dict[OutcomeKey, float] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._began_s = 0.0
        self.second = Second()
        self.in_flight = 0

    def take_second(self) -> Second:
        taken, self.second = self.second, Second()
        return taken

    async def run(self) -> None:
        """Traffic until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._generate())
                group.create_task(self._post_outcomes())
        finally:
            for task in self._requests:
                task.cancel()
            await asyncio.gather(*self._requests, return_exceptions=True)
            self._client.close()

    async def _generate(self) -> None:
        self._began_s = next_s = time.monotonic()
        while True:
            for offset_s, ask in self._workload.second(next_s - self._began_s):
                delay_s = next_s + offset_s - time.monotonic()
                if delay_s > 0:
                    await asyncio.sleep(delay_s)
                task = asyncio.create_task(self.serve(ask))
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
            next_s = max(next_s + 1.0, time.monotonic() - 1.0)
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))

    async def serve(self, ask: Ask) -> None:
        """One request to its end: decided, sent, and sent elsewhere where a region fails it."""
        excluded: list[str] = []
        affinity = ask.session.affinity
        self.second.asked += 1
        self.in_flight += 1
        try:
            for _ in range(ATTEMPTS_MAX):
                chosen = await self._decide(ask, affinity, excluded)
                if chosen is None:
                    return
                token = chosen.affinity.get("token")
                affinity = token if isinstance(token, str) else None
                if await self._send(ask, chosen):
                    self._workload.give_back(ask, affinity, time.monotonic() - self._began_s)
                    return
                excluded.append(chosen.region)
            self.second.lost += 1
        finally:
            self.in_flight -= 1

    async def _decide(self, ask: Ask, affinity: str | None, excluded: list[str]) -> Chosen | None:
        """None when the director refuses, or does not answer."""
        audience = ask.audience
        question: dict[str, object] = {
            "tenant": audience.tenant,
            "model": audience.model,
            "client_ip": ask.session.client_ip,
            "session": ask.session.id,
            "estimated_tokens": ask.prompt_tokens + 200,
        }
        optional = {
            "version": audience.version, "adapter": ask.session.adapter, "affinity": affinity, "exclude": excluded,
        }  # fmt: skip
        question |= {name: value for name, value in optional.items() if value}
        began_s = time.monotonic()
        try:
            answer = await self._client.request(
                self._address, "POST", "/select-region", msgspec.json.encode(question), self._headers, ASK_TIMEOUT_S
            )
        except Unreachable as error:
            self.second.undecided += 1
            self.second.complaint = f"the director does not answer ({error.kind})"
            return None
        self.second.ask_ms.append((time.monotonic() - began_s) * 1000.0)
        return self._read_decision(answer, first=not excluded)

    def _read_decision(self, answer: Answer, *, first: bool) -> Chosen | None:
        second = self.second
        if answer.status == 503:
            second.refused += 1
            return None
        if answer.status != 200:
            second.undecided += 1
            second.complaint = f"HTTP {answer.status} {answer.body[:200].decode('utf-8', 'replace')}"
            return None
        chosen = msgspec.json.decode(answer.body, type=Chosen)
        if first:
            second.decided += 1
            second.regions[chosen.region] += 1
            second.reasons[chosen.reason] += 1
        epoch = chosen.plan.get("epoch")
        second.epoch = max(second.epoch, epoch if isinstance(epoch, int) else 0)
        second.static = second.static or chosen.plan.get("static") is True
        return chosen

    async def _send(self, ask: Ask, chosen: Chosen) -> bool:
        body = msgspec.json.encode(
            Completion(chosen.model, chosen.version, ask.prompt_tokens, ask.generate_tokens, ask.session.adapter)
        )
        port = self._gateways.get(chosen.region)
        if port is None:
            self.second.failed["no gateway"] += 1
            return False
        retry_after_s = None
        try:
            answer = await self._client.request(
                ("127.0.0.1", port), "POST", "/v1/completions", body, timeout_s=SERVE_TIMEOUT_S
            )
            outcome = _outcome(answer.status)
            retry_after_s = answer.headers.get("retry-after")
        except Unreachable as error:
            outcome = error.kind
        key = (chosen.region, chosen.model, chosen.version, outcome)
        self._outcomes[key] += 1
        if retry_after_s is not None:
            self._retry_after_s[key] = float(retry_after_s)
        if outcome == "ok":
            self.second.served += 1
            return True
        self.second.failed[outcome] += 1
        return False

    async def _post_outcomes(self) -> None:
        """Each second, as an L7 does. Two reporters, because one alone closes no region."""
        while True:
            await asyncio.sleep(OUTCOMES_EVERY_S)
            counted, self._outcomes = self._outcomes, Counter()
            waits, self._retry_after_s = self._retry_after_s, {}
            for reporter, halves in (("edge-a", _half(counted, 1)), ("edge-b", _half(counted, 0))):
                outcomes = [
                    {"region": region, "model": model, "version": version, "class": kind, "count": count}
                    | ({"retry_after_s": waits[key]} if (key := (region, model, version, kind)) in waits else {})
                    for (region, model, version, kind), count in halves.items()
                ]
                if outcomes:
                    await self._post(reporter, outcomes)

    async def _post(self, reporter: str, outcomes: list[dict[str, object]]) -> None:
        body = msgspec.json.encode({"reporter": reporter, "batch": secrets.token_hex(8), "outcomes": outcomes})
        try:
            answer = await self._client.request(self._address, "POST", "/outcomes", body, self._headers, ASK_TIMEOUT_S)
        except Unreachable:
            return
        if answer.status >= 400:
            self.second.complaint = f"outcomes: HTTP {answer.status} {answer.body[:200].decode('utf-8', 'replace')}"


def _half(counted: Counter[OutcomeKey], odd: int) -> dict[OutcomeKey, int]:
    halves = {key: (count + odd) // 2 for key, count in counted.items()}
    return {key: count for key, count in halves.items() if count}


def _outcome(status: int) -> str:
    if status < 400:
        return "ok"
    if status in (429, 503):
        return "throttled"
    return "server" if status >= 500 else "client"
