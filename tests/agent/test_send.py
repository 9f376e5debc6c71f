"""Reports reach directors: the newest one, in time, to each by itself."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from director.agent.config import DirectorEndpoint
from director.agent.fetch import Clients
from director.agent.report import ReportBuilder, region_health
from director.agent.send import BACKOFF_S_MAX, BACKOFF_S_MIN, Sender, backoff_s, put_report
from director.core.report import Report
from director.demo.wire import Request, Response
from tests.agent.servers import hanging, serving, until


class Director:
    """Answers with the statuses it is given, then 202; keeps what it was sent."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.sequences: list[int] = []
        self.paths: list[str] = []

    async def __call__(self, request: Request) -> Response:
        self.paths.append(f"{request.method} {request.path}")
        self.sequences.append(msgspec.json.decode(request.body, type=Report).sequence)
        return Response(self.statuses.pop(0) if self.statuses else 202, b"{}")


def make_reports(count: int) -> list[Report]:
    builder = ReportBuilder(5.0)
    return [builder.build([], "ok") for _ in range(count)]


async def test_a_report_is_put_where_the_contract_says() -> None:
    """PUT /regions/{region}/report."""
    director, clients = Director(), Clients()
    async with serving(director) as url:
        answer = await put_report(
            clients.of(url, None), DirectorEndpoint(url + "/", token="t"), "eu-west-1", *make_reports(1)
        )
    await clients.close()
    assert answer.accepted
    assert director.paths == ["PUT /regions/eu-west-1/report"]


async def test_after_a_failure_the_newest_report_is_sent_and_no_backlog() -> None:
    """Three were made while the director was away: it hears the last."""
    director, clients = Director(503), Clients()
    first, *others = make_reports(4)
    async with serving(director) as url:
        sender = Sender(DirectorEndpoint(url, token="t"), "eu-west-1", clients)
        task = asyncio.create_task(sender.run())
        sender.offer(first)
        await until(lambda: director.sequences == [1])
        for report in others:
            sender.offer(report)
        await until(lambda: sender.accepted == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await clients.close()
    assert director.sequences == [1, 4]
    assert sender.superseded == 2


@pytest.mark.parametrize("status", [409, 422, 400])
async def test_a_report_that_cannot_be_taken_is_not_sent_again(status: int) -> None:
    """The next one may fare better; the same one would not."""
    director, clients = Director(status), Clients()
    async with serving(director) as url:
        sender = Sender(DirectorEndpoint(url, token="t"), "eu-west-1", clients)
        sender.offer(make_reports(1)[0])
        await sender.send_newest()
        assert sender.failed == 1
        task = asyncio.create_task(sender.run())
        sender.offer(make_reports(1)[0])
        await until(lambda: sender.accepted == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await clients.close()
    assert len(director.sequences) == 2


async def test_a_silent_director_holds_up_no_other() -> None:
    """One sender for each."""
    director, clients = Director(), Clients()
    async with serving(director) as url, serving(hanging) as silent:
        senders = [
            Sender(DirectorEndpoint(silent, token="t", timeout_s=600.0), "eu-west-1", clients),
            Sender(DirectorEndpoint(url, token="t"), "eu-west-1", clients),
        ]
        tasks = [asyncio.create_task(sender.run()) for sender in senders]
        for sender in senders:
            sender.offer(make_reports(1)[0])
        await until(lambda: senders[1].accepted == 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await clients.close()


async def test_a_director_that_is_not_there_is_an_answer_not_an_exception(tmp_path: Path) -> None:
    """As is a token that cannot be read."""
    clients = Clients()
    report = make_reports(1)[0]
    nowhere = await put_report(
        clients.of("http://127.0.0.1:9", None), DirectorEndpoint("http://127.0.0.1:9", token="t"), "r", report
    )
    assert (nowhere.accepted, nowhere.again) == (False, True)
    token_file = tmp_path / "token"
    director = DirectorEndpoint("http://127.0.0.1:9", token_file=str(token_file))
    missing = await put_report(clients.of(director.url, None), director, "r", report)
    assert "token_file" in missing.what
    await clients.close()


async def test_a_rotated_token_file_is_read_with_the_next_report(tmp_path: Path) -> None:
    """No restart for a new token."""
    seen: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.append(next(line for line in head.split("\r\n") if line.lower().startswith("authorization")).split()[-1])
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    token_file, clients = tmp_path / "token", Clients()
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for token in ("first", "second"):
        token_file.write_text(token + "\n")
        director = DirectorEndpoint(url, token_file=str(token_file))
        assert (await put_report(clients.of(director.url, None), director, "r", make_reports(1)[0])).accepted
    await clients.close()
    server.close()
    assert seen == ["first", "second"]


@given(st.integers(1, 10_000), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_back_off_grows_is_spread_and_stays_below_the_time_a_region_is_lost_in(
    failures: int, random_01: float, retry_after_s: float | None
) -> None:
    """Never sooner than asked, never later than the maximum: whatever a director asks, regions must not be lost."""
    wait_s = backoff_s(failures, random_01, retry_after_s)
    assert BACKOFF_S_MIN / 2 <= wait_s <= BACKOFF_S_MAX
    if retry_after_s is not None:
        assert wait_s >= min(retry_after_s, BACKOFF_S_MAX)


def test_each_start_has_a_boot_id_of_its_own_and_sequences_rise() -> None:
    """A director tells a restarted agent from an old report by it."""
    one, other = ReportBuilder(5.0), ReportBuilder(5.0)
    assert one.boot_id != other.boot_id
    assert [one.build([], "ok").sequence for _ in range(3)] == [1, 2, 3]


def test_a_region_without_any_ready_replica_says_that_it_is_down() -> None:
    """Its gateway may be fine."""
    assert region_health([]) == "down"
