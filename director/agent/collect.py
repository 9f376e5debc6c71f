"""The scraping half of an agent: a task for each target, none waiting for another, and what they say so far."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from director.agent.config import AgentConfig, DeploymentConfig, Source, Tls
from director.agent.discovery import Discovery, DiscoveryFailed, discovery_of
from director.agent.engines import ENGINES, WANTED
from director.agent.exposition import ExpositionParser, NotUnderstood
from director.agent.fetch import Clients, NoAnswer, fetch_text, origin
from director.agent.models_list import EVERY_S, fetch_adapters
from director.agent.prometheus import STALE_S, InstanceDump, query_url, read_reply
from director.agent.summary import DeploymentMemory, Summary, summarise
from director.agent.voice import Voice
from director.core.report import DeploymentReport, Replicas

log = structlog.get_logger(__name__)

Clock = Callable[[], float]
"""Monotonic seconds."""

WatchKey = tuple[str, Tls | None]


class Place:
    """One source of one deployment, and the voices found there."""

    def __init__(self, deployment: DeploymentConfig, source: Source) -> None:
        self.deployment, self.source = deployment, source
        engine = ENGINES.get(deployment.engine or "vllm")
        self.when_missing = engine.when_missing if engine is not None and deployment.engine is not None else ""
        self.discovery: Discovery = discovery_of(source, engine.metrics_path if engine is not None else "/metrics")
        self.voices: dict[str, Voice] = {}
        self.problem: str | None = None
        self.looked_up = False
        """Whether the source was looked up, or Prometheus asked, at all; well or not."""
        self.is_prometheus = source.prometheus is not None
        self._seen_unix_s: dict[str, float] = {}

    @property
    def query_url(self) -> str:
        source = self.source
        return query_url(source.prometheus or "", self.deployment.engine, source.selector, source.query)

    def hear(self, dumps: dict[str, InstanceDump], at_s: float, now_unix_s: float) -> None:
        """What Prometheus last scraped from each instance, stamped with when it did on our own clock."""
        for instance, (dump, at_unix_s) in dumps.items():
            voice = self.voices.setdefault(instance, Voice(instance, self.deployment, self.source))
            age_s = now_unix_s - at_unix_s
            if age_s > STALE_S:
                voice.fail(f"was last scraped by Prometheus {age_s:.0f} s ago", certain=True)
            elif at_unix_s > self._seen_unix_s.get(instance, 0.0):
                self._seen_unix_s[instance] = at_unix_s
                voice.observe(dump, at_s - age_s)
        for instance in self.voices.keys() - dumps.keys():
            # Long enough out of sight that it is not coming back under this name.
            del self.voices[instance]

    async def refresh(self) -> None:
        if self.is_prometheus:
            return
        try:
            urls = await self.discovery.find()
        except DiscoveryFailed as error:
            self.problem, self.looked_up = str(error), True
            return
        self.problem = None
        self.voices = {url: self.voices.get(url) or Voice(url, self.deployment, self.source) for url in urls}
        self.looked_up = True


class Collector:
    """Scrapes while `run` runs; `summaries` says what is known at any moment."""

    def __init__(self, config: AgentConfig, clock: Clock = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._clients = Clients()
        self._parser = ExpositionParser(WANTED)
        self._places = [[Place(d, source) for source in d.sources] for d in config.deployments]
        self._memories = [DeploymentMemory() for _ in config.deployments]
        self._watches: dict[WatchKey, asyncio.Task[None]] = {}
        self._listed_at_s: dict[WatchKey, float] = {}
        self.scrapes = 0
        self.scrapes_failed = 0

    async def run(self) -> None:
        """Until cancelled. Targets come and go as their sources say."""
        self._watches.clear()
        try:
            async with asyncio.TaskGroup() as group:
                for place in self._all_places():
                    group.create_task(self._follow(place, group))
        finally:
            await self._clients.close()

    async def scrape_once(self) -> None:
        """Looks every source up and scrapes every target once, all at the same time."""
        await asyncio.gather(*(place.refresh() for place in self._all_places()))
        prometheus = [place for place in self._all_places() if place.is_prometheus]
        await asyncio.gather(
            *(self._scrape(key) for key in self._targets()), *(self._ask_prometheus(place) for place in prometheus)
        )

    async def close(self) -> None:
        await self._clients.close()

    def summaries(self) -> list[Summary]:
        at_s = self._clock()
        return [
            self._summary(deployment, places, memory, at_s)
            for deployment, places, memory in zip(self._config.deployments, self._places, self._memories, strict=True)
        ]

    @property
    def asked_everybody(self) -> bool:
        """Whether each source was looked up and each target found there has answered or failed once."""
        places = self._all_places()
        return all(place.looked_up and all(voice.heard for voice in place.voices.values()) for place in places)

    def voices(self) -> list[Voice]:
        return [voice for place in self._all_places() for voice in place.voices.values()]

    @staticmethod
    def _summary(deployment: DeploymentConfig, places: list[Place], memory: DeploymentMemory, at_s: float) -> Summary:
        voices = _each_once(places)
        try:
            summary = summarise(deployment, voices, memory, at_s)
        except Exception as error:  # without this one deployment's fault would silence the whole region
            log.exception("summary_crashed", model=deployment.model, version=deployment.version)
            nothing = DeploymentReport(deployment.model, deployment.version, Replicas(0, len(voices)))
            return Summary(nothing, {}, (f"broke the agent's summary: {error!r}",))
        lookups = tuple(place.problem for place in places if place.problem)
        return Summary(summary.report, summary.origins, lookups + summary.problems)

    def _all_places(self) -> list[Place]:
        return [place for places in self._places for place in places]

    def _targets(self) -> dict[WatchKey, list[tuple[Place, Voice]]]:
        """A target that several deployments share is scraped once for all of them."""
        targets: dict[WatchKey, list[tuple[Place, Voice]]] = {}
        for place in self._all_places():
            for url, voice in () if place.is_prometheus else place.voices.items():
                targets.setdefault((url, place.source.tls), []).append((place, voice))
        return targets

    async def _follow(self, place: Place, group: asyncio.TaskGroup) -> None:
        while place.is_prometheus:
            await self._ask_prometheus(place)
            await asyncio.sleep(self._config.interval_s)
        while True:
            await place.refresh()
            if place.problem:
                log.warning("source_unknown", problem=place.problem)
            self._reconcile(group)
            if place.discovery.refresh_s is None and not place.problem:
                return
            await asyncio.sleep(place.discovery.refresh_s or self._config.interval_s)

    def _reconcile(self, group: asyncio.TaskGroup) -> None:
        targets = self._targets()
        for key in targets.keys() - self._watches.keys():
            self._watches[key] = group.create_task(self._watch(key))
        for key in self._watches.keys() - targets.keys():
            self._watches.pop(key).cancel()
            self._listed_at_s.pop(key, None)
            url, tls = key
            if (origin(url), tls) not in {(origin(other), other_tls) for other, other_tls in targets}:
                group.create_task(self._clients.drop(url, tls))

    async def _watch(self, key: WatchKey) -> None:
        """Scrapes one target each interval, at a phase of its own so that two hundred do not answer at once."""
        interval_s = self._config.interval_s
        await self._scrape(key)
        await asyncio.sleep(interval_s * random.random())
        next_s = self._clock()
        while True:
            await self._scrape(key)
            next_s = max(next_s + interval_s, self._clock())
            await asyncio.sleep(next_s - self._clock())

    async def _scrape(self, key: WatchKey) -> None:
        url, tls = key
        listeners = self._targets_of(key)
        if not listeners:
            return
        when_missing = next((place.when_missing for place, _ in listeners if place.when_missing), "")
        self.scrapes += 1
        try:
            text = await fetch_text(self._clients.of(url, tls), url, self._config.scrape_timeout_s, when_missing)
            dump = self._parser.parse(text)
        except (NoAnswer, NotUnderstood) as error:
            self.scrapes_failed += 1
            certain = not isinstance(error, NoAnswer) or error.certain
            for _, voice in listeners:
                voice.fail(str(error), certain=certain)
            return
        at_s = self._clock()
        for _, voice in listeners:
            voice.observe(dump, at_s)
        if at_s - self._listed_at_s.get(key, -EVERY_S) >= EVERY_S and any(v.lists_adapters for _, v in listeners):
            self._listed_at_s[key] = at_s
            await self._list_adapters(key, listeners)

    async def _list_adapters(self, key: WatchKey, listeners: list[tuple[Place, Voice]]) -> None:
        url, tls = key
        adapters = await fetch_adapters(self._clients.of(url, tls), url, self._config.scrape_timeout_s)
        if adapters is not None:
            for _, voice in listeners:
                voice.list_adapters(adapters)

    async def _ask_prometheus(self, place: Place) -> None:
        """A Prometheus that does not answer twice takes its instances with it: nobody sees them."""
        self.scrapes += 1
        try:
            client = self._clients.of(place.query_url, place.source.tls)
            text = await fetch_text(client, place.query_url, self._config.scrape_timeout_s)
            dumps = read_reply(text)
        except (NoAnswer, NotUnderstood) as error:
            self.scrapes_failed += 1
            place.problem, place.looked_up = f"prometheus {place.source.prometheus}: {error}", True
            for voice in place.voices.values():
                voice.fail(str(error), certain=False)
            return
        place.problem = None if dumps else f"prometheus {place.source.prometheus}: the query finds no series"
        place.hear(dumps, self._clock(), time.time())
        place.looked_up = True

    def _targets_of(self, key: WatchKey) -> list[tuple[Place, Voice]]:
        url, tls = key
        return [
            (place, place.voices[url])
            for place in self._all_places()
            if url in place.voices and place.source.tls == tls and not place.is_prometheus
        ]


def _each_once(places: list[Place]) -> list[Voice]:
    """A replica that two sources of a deployment find is one replica."""
    found = {
        (url, place.source.epp, place.source.pool): voice for place in places for url, voice in place.voices.items()
    }
    return list(found.values())


async def supervised(name: str, work: Callable[[], Coroutine[Any, Any, None]], pause_s: float = 1.0) -> None:
    """Runs `work` again whenever a fault of ours ends it: an agent that stops reporting takes its region down."""
    while True:
        try:
            await work()
        except Exception as error:
            log.exception("task_crashed", task=name, error=repr(error))
        else:
            return
        await asyncio.sleep(pause_s)
