"""Replicas read through a Prometheus server that scrapes them already.

One query returns the engine's own series with their own timestamps; grouped by instance they are the dumps that a
direct scrape would have brought, so every reader and every rule about resets holds for them too. Rates come from the
times Prometheus scraped at, not from when it was asked. An instance that two jobs scrape (a ServiceMonitor and a
PodMonitor, as it happens) is one replica, whose load is not twice there: one job speaks for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple
from urllib.parse import quote

import msgspec
from msgspec import Struct

from director.agent.engines import ENGINES, WANTED
from director.agent.engines.vllm import HTTP_REQUESTS
from director.agent.exposition import Dump, NotUnderstood, Sample

LOOK_BACK_S = 120
"""Twice Prometheus' slowest usual scrape interval."""
COMMON = frozenset({"process_start_time_seconds", HTTP_REQUESTS})
"""Names that programs of every kind expose: without a selector they would bring in whatever Prometheus scrapes."""
STALE_S = 75.0
"""An instance whose last sample is older does not answer Prometheus: more than one scrape a minute was missed."""


class _Series(Struct, frozen=True):
    metric: dict[str, str]
    values: tuple[tuple[float, str], ...] = ()

    @property
    def instance(self) -> str:
        return self.metric.get("instance", "")

    @property
    def job(self) -> str:
        return self.metric.get("job", "")


class _Data(Struct, frozen=True):
    result: tuple[_Series, ...] = ()


class _Reply(Struct):
    status: str
    data: _Data = _Data()
    error: str = ""


class InstanceDump(NamedTuple):
    dump: Dump
    at_unix_s: float
    """When Prometheus scraped it."""


def query_url(base_url: str, engine: str | None, selector: str, query: str | None) -> str:
    """The HTTP API's address of the shipped query, or of `query`, over the last LOOK_BACK_S."""
    if query is None:
        wanted = ENGINES[engine].wanted if engine is not None else WANTED
        names = "|".join(sorted(wanted if selector else wanted - COMMON))
        matchers = ",".join(part for part in (f'__name__=~"{names}"', selector.strip(", ")) if part)
        query = f"{{{matchers}}}"
    return f"{base_url.rstrip('/')}/api/v1/query?query={quote(f'{query}[{LOOK_BACK_S}s]', safe='')}"


def read_reply(text: str) -> dict[str, InstanceDump]:
    """The newest samples of each instance. Raises `NotUnderstood`."""
    try:
        reply = msgspec.json.decode(text, type=_Reply)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise NotUnderstood(f"did not answer as Prometheus' HTTP API does: {error}") from error
    if reply.status != "success":
        raise NotUnderstood(f"refused the query: {reply.error}")
    told = _one_job_each([series for series in reply.data.result if series.values])
    newest: dict[str, float] = {}
    for series in told:
        newest[series.instance] = max(newest.get(series.instance, 0.0), series.values[-1][0])
    dumps = {instance: InstanceDump(Dump(), at_unix_s) for instance, at_unix_s in newest.items()}
    for series in told:
        _take(series, dumps[series.instance])
    return dumps


def _one_job_each(told: list[_Series]) -> list[_Series]:
    """Of each instance the series of one job: of those whose scrapes go on, the one that says most."""
    jobs: dict[str, dict[str, list[float]]] = {}
    for series in told:
        jobs.setdefault(series.instance, {}).setdefault(series.job, []).append(series.values[-1][0])
    speaking = {instance: _says_most(of_instance) for instance, of_instance in jobs.items()}
    return [series for series in told if series.job == speaking[series.instance]]


def _says_most(jobs: dict[str, list[float]]) -> str:
    """Of (job → times of its series' last samples); the first by name where they say as much."""
    newest_unix_s = max(max(times) for times in jobs.values())
    going_on = {job: times for job, times in jobs.items() if newest_unix_s - max(times) <= STALE_S}
    return min(going_on, key=lambda job: (-len(going_on[job]), job))


def _take(series: _Series, into: InstanceDump) -> None:
    """A series that was not in its instance's last scrape is history: the engine no longer says it."""
    labels = dict(series.metric)
    name = labels.pop("__name__", "")
    at_unix_s, text = series.values[-1]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if at_unix_s >= into.at_unix_s - 1.0:
        into.dump.samples.setdefault(name, []).append(Sample(labels, value))
        into.dump.lines += 1
