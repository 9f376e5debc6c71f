from __future__ import annotations

from collections.abc import Callable

import dns.edns
import dns.message
import pytest

from director.dns.answer import Answerer
from director.dns.metrics import Transport
from tests.dns.fakes import FakeView

Ask = Callable[..., dns.message.Message]


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
