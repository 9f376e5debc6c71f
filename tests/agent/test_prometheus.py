"""Through a Prometheus server the agent hears what it would hear from the replicas themselves."""

from __future__ import annotations

import json
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from director.agent.collect import Collector, Place
from director.agent.config import DeploymentConfig, Source
from director.agent.engines import WANTED
from director.agent.exposition import ExpositionParser, NotUnderstood
from director.agent.history import History
from director.agent.prometheus import STALE_S, query_url, read_reply
from director.demo.wire import Request, Response
from tests.agent.dumps import vllm_dump
from tests.agent.servers import serving
from tests.agent.test_collect import config


def reply(*instances: tuple[str, float, str]) -> str:
    """Prometheus' answer when it scraped these (instance, unix time, dump)."""
    result = []
    for instance, at_unix_s, text in instances:
        for name, samples in ExpositionParser(WANTED).parse(text).samples.items():
            for labels, value in samples:
                metric = {"__name__": name, "instance": instance, "job": "llm", **labels}
                result.append({"metric": metric, "values": [[at_unix_s - 15, "0"], [at_unix_s, str(value)]]})
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def place() -> Place:
    source = Source(prometheus="http://prom")
    return Place(DeploymentConfig("m", "1", (source,), engine="vllm", replica_max_running=8.0), source)


async def test_each_instance_is_a_replica() -> None:
    """One query, whose names are the engine's and whose matchers are the configuration's."""
    asked: list[str] = []

    async def handler(request: Request) -> Response:
        asked.append(parse_qs(urlsplit(request.path).query)["query"][0])
        now_unix_s = time.time()
        return Response(200, reply(("a:1", now_unix_s - 3, vllm_dump()), ("b:1", now_unix_s, vllm_dump())).encode())

    async with serving(handler) as url:
        collector = Collector(config(Source(prometheus=url, selector='namespace="llm"')))
        await collector.scrape_once()
        report = collector.summaries()[0].report
        await collector.close()
    assert (report.replicas.ready, report.running, report.max_running) == (2, 6.0, 16.0)
    assert "vllm:num_requests_running" in asked[0]
    assert 'namespace="llm"' in asked[0]
    assert asked[0].endswith("[120s]")


def test_rates_count_from_when_prometheus_scraped_not_from_when_it_was_asked() -> None:
    """Asked every five seconds about scrapes thirty seconds apart: no zero, no burst."""
    here = place()
    for asked_s in range(0, 65, 5):
        scraped_s = asked_s // 30 * 30
        dumps = read_reply(reply(("a:1", 1_000.0 + scraped_s, vllm_dump(stops=10 * scraped_s))))
        here.hear(dumps, float(asked_s), 1_000.0 + asked_s)
        history: History = here.voices["a:1"].history
        rates = history.rates()
        if asked_s >= 30:
            assert rates is not None
            assert rates.per_s["requests_completed"] == pytest.approx(10.0)


def test_an_instance_that_prometheus_no_longer_reaches_is_not_ready() -> None:
    """Its last figures are the past; later it is gone."""
    here = place()
    dumps = read_reply(reply(("a:1", 1_000.0, vllm_dump())))
    here.hear(dumps, 0.0, 1_000.0)
    assert here.voices["a:1"].reading is not None
    here.hear(dumps, STALE_S + 1, 1_000.0 + STALE_S + 1)
    assert here.voices["a:1"].reading is None
    here.hear({}, 200.0, 1_200.0)
    assert here.voices == {}


def test_an_instance_that_two_jobs_scrape_is_one_replica() -> None:
    """Its load is not twice there: the job that says more is taken, and the other when that one ends."""

    def told(name: str, job: str, at_unix_s: float) -> dict[str, object]:
        metric = {"__name__": name, "instance": "a:1", "job": job, "model_name": "m"}
        return {"metric": metric, "values": [[at_unix_s, "3"]]}

    running, waiting = "vllm:num_requests_running", "vllm:num_requests_waiting"

    def heard(*result: dict[str, object]) -> list[tuple[str, float]]:
        dump = read_reply(json.dumps({"status": "success", "data": {"result": result}}))["a:1"].dump
        return [(s.labels["job"], s.value) for s in dump.get(running)]

    both = [told(name, job, 1_000.0) for name in (running, waiting) for job in ("pods", "node")]
    assert heard(*both) == [("node", 3.0)]
    assert heard(*both, told("vllm:kv_cache_usage_perc", "pods", 1_001.0)) == [("pods", 3.0)]
    ended = [told(running, "node", 1_000.0), told(waiting, "node", 1_000.0)]
    assert heard(*ended, told(running, "pods", 1_000.0 + STALE_S + 1)) == [("pods", 3.0)]


def test_a_series_that_the_engine_no_longer_says_is_not_read_from_an_older_scrape() -> None:
    """Prometheus looks back; an engine that was upgraded left its old names there."""
    old = {"metric": {"__name__": "vllm:gpu_cache_usage_perc", "instance": "a"}, "values": [[940.0, "0.9"]]}
    new = {"metric": {"__name__": "vllm:num_requests_running", "instance": "a"}, "values": [[1_000.0, "1"]]}
    text = json.dumps({"status": "success", "data": {"result": [old, new]}})
    assert "vllm:gpu_cache_usage_perc" not in read_reply(text)["a"].dump


@pytest.mark.parametrize("text", ["<html>", "[]", '{"status": "error", "error": "bad matcher"}', '{"status": 5}'])
def test_what_is_no_answer_of_prometheus_is_refused(text: str) -> None:
    """By reason."""
    with pytest.raises(NotUnderstood):
        read_reply(text)


@pytest.mark.parametrize("engine", ["vllm", None])
def test_names_that_every_program_has_are_asked_for_within_a_selector_only(engine: str | None) -> None:
    """Else each web server that Prometheus knows would be a replica that says nothing."""
    for name in ("http_requests_total", "process_start_time_seconds"):
        assert name not in query_url("http://p", engine, "", None)
    assert "http_requests_total" in query_url("http://p", engine, 'app="llama"', None)


def test_a_query_of_ones_own_replaces_the_shipped_one() -> None:
    """Whole."""
    url = query_url("http://prom/", "vllm", "", "my_series")
    assert url == "http://prom/api/v1/query?query=my_series%5B120s%5D"
