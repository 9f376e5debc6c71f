from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import dns.edns
import dns.message
import pytest

from director.dns.answer import Answerer
from director.dns.metrics import Transport
from tests.dns.fakes import FakeView

Ask = Callable[..., dns.message.Message]


@pytest.fixture(scope="module")
def port() -> Iterator[str]:
    """Of a responder over the test policy, in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.dns.serving", "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield process.stdout.readline().split()[1]
        process.stdin.close()
        assert process.wait(10) == 0


@pytest.fixture
def view() -> FakeView:
    return FakeView()


@pytest.fixture
def responder(view: FakeView) -> Answerer:
    return Answerer(view, nsid=b"replica-1")


@pytest.fixture
def ask(responder: Answerer) -> Ask:
    """Ask by name and type; returns the answer as another implementation reads it, checked against its query."""

    def ask(
        name: str,
        rdtype: str = "A",
        *,
        subnet: str | None = None,
        source: bytes = b"\xcb\x00\x71\x05",
        transport: Transport = "udp",
        **options: object,
    ) -> dns.message.Message:
        if subnet is not None:
            address, _, bits = subnet.partition("/")
            options["use_edns"] = 0
            options["options"] = [*options.get("options", []), dns.edns.ECSOption(address, int(bits))]  # type: ignore[misc, attr-defined]
        query = dns.message.make_query(name, rdtype, **options)  # type: ignore[arg-type]
        answer = responder.answer(query.to_wire(), source, transport)
        assert answer is not None
        message = dns.message.from_wire(answer.wire)
        assert query.is_response(message)
        return message

    return ask
