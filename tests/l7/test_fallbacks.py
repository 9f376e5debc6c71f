"""`director l7 fallbacks`: what a proxy keeps for the day the director is silent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from director.commands import l7_fallbacks as made

EU = {"region": "eu", "endpoint": "https://eu.example.net"}
US = {"region": "us", "endpoint": "https://us.example.net:8443/v2"}
JP = {"region": "jp", "endpoint": "http://[2001:db8::1]:8000"}
ANSWER = {
    "policy": 3,
    "client_zone": "europe",
    "tenants": {"acme": {"m": [EU], "none": []}, "open": {"m": [EU, US, JP]}},
}


def test_an_nginx_map_holds_nothing_that_is_not_permitted() -> None:
    """One row a tenant and model, nearest first; a tenant with one region has no second."""
    text = made.nginx(ANSWER)
    first, second = text.split("$director_fallback_2")
    assert '"acme|m|" "eu=https://eu.example.net";' in first
    assert '"open|m|" "eu=https://eu.example.net";' in first
    assert '"open|m|" "us=https://us.example.net:8443/v2";' in second
    assert '"acme|m|"' not in second
    assert "none" not in text
    assert "server us.example.net:8443" in text
    assert '"https://us.example.net:8443/v2" https://region.us/v2;' in text
    assert "server [2001:db8::1]:8000" in text


def test_without_upstreams_no_name_is_needed_at_start() -> None:
    """`nginx-maps`: a proxy that starts while DNS is away."""
    assert "upstream region" not in made.nginx(ANSWER, upstreams=False)


def test_a_pair_of_regions_is_one_that_some_tenant_may_use_together() -> None:
    """HAProxy's backends: a tenant with one region adds no pair, so nothing leads out of it."""
    alone = {**ANSWER, "tenants": {"acme": {"m": [EU]}, "us-only": {"m": [US]}}}
    assert "backend region:eu:" not in made.haproxy(alone)
    text = made.haproxy(ANSWER)
    assert "backend region:eu:us\n" in text
    assert "server us us.example.net:8443 ssl verify required" in text
    assert made.haproxy_map(ANSWER).splitlines()[2:] == [
        "acme|m| eu=https://eu.example.net",
        "open|m| eu=https://eu.example.net,us=https://us.example.net:8443/v2",
    ]


@pytest.mark.parametrize(
    "url", ['https://x";}evil', "ftp://eu", "https://a b", "https://u@h", "https://", "https://h/?q=1", "https://ü"]
)
def test_an_endpoint_that_could_break_a_configuration_is_refused(url: str) -> None:
    """What ends a string or a block in the proxy's language never gets there."""
    answer = {**ANSWER, "tenants": {"acme": {"m": [{"region": "eu", "endpoint": url}]}}}
    for form in (made.nginx, made.haproxy, made.haproxy_map):
        with pytest.raises(made.EndpointUnusable, match="eu: expected an endpoint"):
            form(answer)


def test_a_tenants_name_is_quoted() -> None:
    """Names of the policy stand in quotes, whatever is in them."""
    answer = {**ANSWER, "tenants": {'a"b': {"m": [EU]}}}
    assert '"a\\"b|m|" ' in made.nginx(answer)


def test_a_file_is_written_only_when_it_changes(tmp_path: Path) -> None:
    """So that whoever reloads on change reloads on change only."""
    path = tmp_path / "fallbacks.conf"
    assert made.write_if_changed(path, "one")
    assert not made.write_if_changed(path, "one")
    assert made.write_if_changed(path, "two")
    assert path.read_text() == "two"
    assert [one.name for one in tmp_path.iterdir()] == ["fallbacks.conf"]


class Keyvals(BaseHTTPRequestHandler):
    """An NGINX Plus keyval zone: POST adds and refuses what is there, PATCH changes or, by null, removes."""

    values: dict[str, str]

    def do_GET(self) -> None:
        self._answer(200, self.values)

    def do_POST(self) -> None:
        told = self._told()
        if set(told) & set(self.values):
            self._answer(409, {})
            return
        self.values.update(told)
        self._answer(201, {})

    def do_PATCH(self) -> None:
        for key, value in self._told().items():
            if key not in self.values:
                self._answer(404, {})
                return
            if value is None:
                del self.values[key]
            else:
                self.values[key] = value
        self._answer(204, None)

    def _told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return found

    def _answer(self, status: int, value: Any) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def plus() -> Iterator[tuple[str, dict[str, str]]]:
    values = {"acme|m|": "us=https://us.example.net", "gone|m|": "us=https://us.example.net"}
    handler = type("Bound", (Keyvals,), {"values": values})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/api/9/http/keyvals/director_fallbacks", values
        server.shutdown()
        thread.join(5)


def test_a_keyval_zone_becomes_what_is_permitted(plus: tuple[str, dict[str, str]]) -> None:
    """NGINX Plus: new keys come, changed ones change, and what is no longer permitted goes."""
    from director.commands.l7 import _put_keyvals

    url, values = plus
    assert _put_keyvals(url, made.keyvals(ANSWER)) == "changed"
    assert values == {
        "acme|m|": "eu=https://eu.example.net",
        "open|m|": "eu=https://eu.example.net,us=https://us.example.net:8443/v2",
    }
    assert _put_keyvals(url, made.keyvals(ANSWER)) == "unchanged"
