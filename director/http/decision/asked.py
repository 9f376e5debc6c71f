"""Which places of a request are read, and which belong to somebody else.

A body and a query string are written by the L7 that holds the token. Headers are the client's own as a rule, and are
read only for a token with `trusted_headers`, whose holder strips its clients' `X-Director-…`. Such a proxy may append
the client's path (Envoy's `ext_authz` does): then query string and body are the client's too, and are not looked at.
"""

from __future__ import annotations

from typing import NamedTuple

from director.http.decision.question import (
    Question,
    pairs_once,
    parse_query,
    question_from_body,
    question_from_parts,
)
from director.http.reading.fields import Notes, one_of

HEADER_PREFIX = b"x-director-"
MODES = ("decision", "auth_request", "ext_authz")
METHODS = (b"GET", b"HEAD", b"POST", b"OPTIONS")

_mode = one_of(*MODES)


class Places(NamedTuple):
    """A request target split, and whether what follows the path is the client's."""

    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    """The `X-Director-…` headers that may be read; () without `trusted_headers`."""
    clients_own: bool


def places(target: bytes, headers: list[tuple[bytes, bytes]], trusted_headers: bool) -> Places:
    path, _, query = target.partition(b"?")
    if not trusted_headers:
        return Places(query, (), False)
    appended = path.count(b"/") > 1
    told = tuple((name, value) for name, value in headers if name.startswith(HEADER_PREFIX))
    return Places(b"" if appended else query, told, appended)


def likely_mode(asked: Places) -> str:
    """The mode, for an error that is found before everything is read. Never raises."""
    if asked.clients_own:
        return "ext_authz"
    told = b"&" + asked.query + b"&"
    headers = {value for name, value in asked.headers if name == b"x-director-mode"}
    for mode in MODES[1:]:
        if b"&mode=%b&" % mode.encode() in told or mode.encode() in headers:
            return mode
    return "decision"


def read_question(asked: Places, body: bytes) -> tuple[str, Question]:
    """Mode and question. Raises `FieldRefused`."""
    if asked.clients_own:
        body = b""
    if not asked.query and not asked.headers:
        if body:
            return "decision", question_from_body(body)
        return "decision", question_from_parts({}, {}, b"")
    query = parse_query(asked.query)
    headers = pairs_once(((_header_name(name), value.decode("latin-1")) for name, value in asked.headers), "headers")
    told = [fields.pop("mode") for fields in (query, headers) if "mode" in fields]
    default = "ext_authz" if asked.clients_own else "decision"
    mode = _mode(told[0], "mode", Notes()) if told else default
    return mode, question_from_parts(query, headers, body)


def _header_name(name: bytes) -> str:
    return name[len(HEADER_PREFIX) :].decode("latin-1").replace("-", "_")
