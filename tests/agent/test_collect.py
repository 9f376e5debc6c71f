"""Scraping over a real network: whoever hangs, refuses or talks nonsense costs its own figures only."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import time
from pathlib import Path

import pytest

from director.agent.collect import Collector
from director.agent.config import AgentConfig, DeploymentConfig, DirectorEndpoint, DnsSource, Source
from director.agent.discovery import DiscoveryFailed, Files
from director.agent.summary import Summary
from director.core.report import Scraped
from tests.agent.dumps import epp_dump, vllm_dump
from tests.agent.servers import hanging, saying, serving, until
from tests.serve.processes import free_port


def config(*sources: Source, engine: str | None = "vllm", timeout_s: float = 0.5) -> AgentConfig:
    deployment = DeploymentConfig(
        "llama-3.3-70b",
        "2026-08-14",
        sources,
        engine=engine,
        replica_max_running=8.0,  # type: ignore[arg-type]
    )
    director = DirectorEndpoint("http://127.0.0.1:9", token="t")
    return AgentConfig("eu-west-1", (director,), (deployment,), interval_s=0.5, scrape_timeout_s=timeout_s)


async def test_one_hung_replica_delays_nobody() -> None:
    """The other is read again and again before the hung one's time is up."""
    async with serving(saying(vllm_dump())) as well, serving(hanging) as hung:
        collector = Collector(config(Source(static=(well, hung)), timeout_s=30.0))
        running = asyncio.create_task(collector.run())
        try:
            await until(lambda: collector.scrapes >= 4)
            assert collector.scrapes_failed == 0
            report = collector.summaries()[0].report
            assert report.replicas.ready == 1
            assert report.scraped == Scraped(1, 2)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_refused_connection_is_certain_at_once_and_a_returning_replica_is_read_again() -> None:
    """Nobody listens: not ready with the first scrape."""
    collector = Collector(config(Source(static=(f"http://127.0.0.1:{free_port()}",))))
    await collector.scrape_once()
    summary = collector.summaries()[0]
    assert summary.report.replicas.ready == 0
    assert "refused" in summary.problems[0]
    await collector.close()


async def test_metrics_switched_off_are_said_with_the_switch() -> None:
    """SGLang answers 404 without --enable-metrics: no zero load, but a name and a hint."""
    async with serving(saying("not found", 404)) as url:
        collector = Collector(config(Source(static=(url,)), engine="sglang"))
        await collector.scrape_once()
        summary = collector.summaries()[0]
        await collector.close()
    assert summary.report.replicas.ready == 0
    assert "--enable-metrics" in summary.problems[0]
    assert url in summary.problems[0]


async def test_a_picker_and_replicas_together_and_a_shared_target_is_scraped_once() -> None:
    """Two deployments behind one picker: one request, two readings."""
    asked = 0

    async def handler(request: object) -> object:
        nonlocal asked
        asked += 1
        return await saying(epp_dump())(request)  # type: ignore[arg-type]

    async with serving(handler) as url:  # type: ignore[arg-type]
        base = config(Source(epp=url))
        other = DeploymentConfig("other", "1", (Source(epp=url, pool="p1"),))
        collector = Collector(
            AgentConfig("eu-west-1", base.directors, (*base.deployments, other), interval_s=0.5, scrape_timeout_s=0.5)
        )
        await collector.scrape_once()
        ready = [summary.report.replicas.ready for summary in collector.summaries()]
        await collector.close()
    assert (asked, ready) == (1, [4, 4])


async def test_a_dripping_replica_is_cut_off_as_a_whole() -> None:
    """A byte now and then would outlive a timeout that starts anew with each."""

    async def drip(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        try:
            while True:
                writer.write(b"#")
                await writer.drain()
                await asyncio.sleep(0.05)
        except (ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    collector = Collector(config(Source(static=(url,)), timeout_s=0.3))
    began_s = time.monotonic()
    await collector.scrape_once()
    took_s = time.monotonic() - began_s
    assert took_s < 30.0  # it would drip for more than an hour
    assert "did not answer within 0.3 s" in collector.summaries()[0].problems[0]
    await collector.close()
    server.close()


def http(status: str, body: bytes, *heads: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"content-length: {len(body)}", "connection: close", *heads, "", ""]
    return "\r\n".join(lines).encode() + body


async def scraped(answer: bytes) -> Summary:
    """What the agent makes of a replica that writes these bytes and closes."""

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(write, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    collector = Collector(config(Source(static=(url,)), timeout_s=20.0))
    await collector.scrape_once()
    summary = collector.summaries()[0]
    await collector.close()
    server.close()
    return summary


DUMP = vllm_dump().encode()
CHUNKED = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (DUMP[:700], DUMP[700:])) + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        http("200 OK", gzip.compress(DUMP), "content-encoding: gzip"),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKED,
        b"HTTP/1.0 200 OK\r\n\r\n" + DUMP,
        http("200 OK", DUMP + b"# EOF\n", "content-type: application/openmetrics-text; version=1.0.0"),
    ],
    ids=["gzip", "chunked", "until closed", "openmetrics"],
)
async def test_a_dump_is_read_however_it_is_sent(answer: bytes) -> None:
    """The same figures each time."""
    summary = await scraped(answer)
    assert (summary.report.replicas.ready, summary.report.running, summary.problems) == (1, 3.0, ())


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (http("200 OK", b"\n  <!doctype html><title>Sign in</title>", "content-type: text/html"), "HTML"),
        (http("302 Found", b"", "location: http://127.0.0.1:9/login"), "HTTP 302"),
        (http("204 No Content", b""), "HTTP 204"),
        (http("503 Service Unavailable", DUMP), "HTTP 503"),
        (http("401 Unauthorized", b""), "does not let the agent read"),
        (http("200 OK", b""), "no samples at all"),
        (http("200 OK", DUMP, "content-encoding: gzip"), "broke off"),
        (http("200 OK", gzip.compress(DUMP)[:-40], "content-encoding: gzip")[:-10], "broke off"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + CHUNKED[:600], "broke off"),
        (http("200 OK", gzip.compress(b"# padding\n" * 2_000_000), "content-encoding: gzip"), "more than"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "broke off"),
        (b"", "broke off"),
    ],
)
async def test_what_is_no_dump_is_named_and_never_idle(answer: bytes, says: str) -> None:
    """By target and reason; its replica is not ready."""
    summary = await scraped(answer)
    assert summary.report.replicas.ready == 0
    assert summary.report.running is None
    assert says in summary.problems[0]
    assert summary.problems[0].startswith("http://127.0.0.1:")


async def test_files_in_prometheus_format_are_read_again_when_they_change(tmp_path: Path) -> None:
    """Replicas come and go with the file, and its labels choose scheme and path."""
    path = tmp_path / "targets.json"
    path.write_text(json.dumps([{"targets": ["a:1", "b:2"], "labels": {"__metrics_path__": "/m"}}]))
    files = Files(str(tmp_path / "*.json"), "http", "/metrics")
    assert await files.find() == ("http://a:1/m", "http://b:2/m")
    path.write_text(json.dumps([{"targets": ["c:3"]}]))
    assert await files.find() == ("http://c:3/metrics",)


async def test_a_broken_or_missing_file_takes_no_replica_away(tmp_path: Path) -> None:
    """What was found last stands, and the problem is named."""
    path = tmp_path / "targets.yaml"
    async with serving(saying(vllm_dump())) as url:
        path.write_text(f"- targets: ['{url.removeprefix('http://')}']\n")
        collector = Collector(config(Source(file_sd=str(path))))
        await collector.scrape_once()
        path.write_text("- targets: [")
        await collector.scrape_once()
        summary = collector.summaries()[0]
        await collector.close()
    assert summary.report.replicas.ready == 1
    assert any("targets.yaml" in problem for problem in summary.problems)
    path.unlink()
    with pytest.raises(DiscoveryFailed, match="no such file"):
        await Files(str(path), "http", "/metrics").find()


async def test_a_name_is_resolved_to_every_address() -> None:
    """localhost stands for a headless service; one that does not resolve is named."""
    async with serving(saying(vllm_dump())) as url:
        port = int(url.rsplit(":", 1)[1])
        collector = Collector(config(Source(dns=DnsSource("127.0.0.1", port)), Source(dns=DnsSource("no.invalid", 1))))
        await collector.scrape_once()
        summary = collector.summaries()[0]
        await collector.close()
    assert summary.report.replicas.ready == 1
    assert any("no.invalid" in problem for problem in summary.problems)


async def test_a_name_with_many_addresses_is_resolved_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A headless service grows, shrinks, and is not found for a while: who is read follows, and a failed lookup takes
    nobody away.
    """
    addresses: list[str] = ["127.0.0.1"]

    async def getaddrinfo(host: str, port: int, **_: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        assert host == "llama.svc"
        if not addresses:
            raise OSError("no such name")
        return [(2, 1, 6, "", (address, port)) for address in addresses]

    async with serving(saying(vllm_dump()), host="0.0.0.0") as url:
        port = int(url.rsplit(":", 1)[1])
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
        collector = Collector(config(Source(dns=DnsSource("llama.svc", port, refresh_s=0.05))))
        running = asyncio.create_task(collector.run())

        def ready() -> int:
            return collector.summaries()[0].report.replicas.ready

        await until(lambda: ready() == 1)
        addresses[:] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        await until(lambda: ready() == 3)
        addresses[:] = []
        await until(lambda: any("no such name" in problem for problem in collector.summaries()[0].problems))
        assert ready() == 3
        addresses[:] = ["127.0.0.3"]
        await until(lambda: ready() == 1)
        running.cancel()
        await collector.close()


async def test_a_reader_that_breaks_on_a_dump_costs_its_own_replica_only() -> None:
    """Whatever a future release writes, the region's other replicas are reported."""
    bad = 'vllm:num_requests_running{model_name="m"} 1\nvllm:lora_requests_info{max_lora="²"} 5\n'
    async with serving(saying(vllm_dump())) as well, serving(saying(bad)) as odd:
        collector = Collector(config(Source(static=(well, odd))))
        await collector.scrape_once()
        summary = collector.summaries()[0]
        await collector.close()
    assert summary.report.replicas.ready >= 1


async def test_a_replica_found_twice_is_one_replica() -> None:
    """Listed, and in a file too."""
    async with serving(saying(vllm_dump())) as url:
        collector = Collector(config(Source(static=(url,)), Source(static=(url, url))))
        await collector.scrape_once()
        report = collector.summaries()[0].report
        await collector.close()
    assert (report.replicas.ready, report.replicas.total, report.running) == (1, 1, 3.0)


@pytest.mark.parametrize("target", ["", "host:99999", "[::1:80", "a b:1", "host:port"])
async def test_a_file_of_nonsense_is_a_problem_and_no_crash(tmp_path: Path, target: str) -> None:
    """Whatever generated it."""
    path = tmp_path / "targets.json"
    path.write_text(json.dumps([{"targets": [target]}]))
    collector = Collector(config(Source(file_sd=str(path))))
    await collector.scrape_once()
    summary = collector.summaries()[0]
    await collector.close()
    assert summary.report.replicas.ready == 0
    assert summary.problems


async def test_a_picker_that_falls_silent_leaves_the_number_of_its_replicas_known() -> None:
    """None of four is ready, rather than none of none."""
    async with serving(saying(epp_dump(ready=4))) as url:
        collector = Collector(config(Source(epp=url)))
        await collector.scrape_once()
    await collector.scrape_once()
    report = collector.summaries()[0].report
    await collector.close()
    assert (report.replicas.ready, report.replicas.total) == (0, 4)
