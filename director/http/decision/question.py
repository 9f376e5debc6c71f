"""What `/select-region` and `/explain` are asked, validated, from a JSON body, a query string, or trusted headers.

There is one specification, `FIELDS`, and a quick way for a plain body: ASCII, without escapes, each name once.
The quick way never refuses; whatever it cannot take goes to the specification, which says what is wrong or takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta, Struct, structs

from director.http.problem import FieldProblem
from director.http.reading.fields import (
    Check,
    FieldRefused,
    Notes,
    listed,
    number,
    record,
    refuse,
    text,
    timestamp,
    unknown_field,
)
from director.http.reading.strict_json import NotJson, read_json

NAME_CHARS_MAX = 256
KEY_CHARS_MAX = 512
TAGS_MAX = 32
EXCLUDED_MAX = 64
ESTIMATED_TOKENS_MAX = 1e9
BODY_BYTES_MAX = 64 * 1024
"""A question is a few hundred bytes: a prompt has no business here."""

_Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
_Key = Annotated[str, Meta(min_length=1, max_length=KEY_CHARS_MAX)]
_Tags = Annotated[tuple[_Name, ...], Meta(max_length=TAGS_MAX)]
_Regions = Annotated[tuple[_Name, ...], Meta(max_length=EXCLUDED_MAX)]


class Question(Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """The wire form; see CONTRACT names in `docs/http.md`. None where the request does not say."""

    tenant: _Name | None = None
    model: _Name | None = None
    version: _Name | None = None
    adapter: _Name | None = None
    client_ip: _Name | None = None
    client_zone: _Name | None = None
    session: _Key | None = None
    affinity: _Key | None = None
    residency: _Tags | None = None
    exclude: _Regions | None = None
    estimated_tokens: Annotated[float, Meta(gt=0, le=ESTIMATED_TOKENS_MAX)] | None = None
    request_id: _Key | None = None


_name = text(NAME_CHARS_MAX)
_key = text(KEY_CHARS_MAX)

FIELDS: dict[str, Check] = {
    "tenant": _name,
    "model": _name,
    "version": _name,
    "adapter": _name,
    "client_ip": _name,
    "client_zone": _name,
    "session": _key,
    "affinity": _key,
    "residency": listed(_name, items_max=TAGS_MAX),
    "exclude": listed(_name, items_max=EXCLUDED_MAX),
    "estimated_tokens": number(above=0, at_most=ESTIMATED_TOKENS_MAX),
    "request_id": _key,
}
LISTS = ("residency", "exclude")

_read_question = record(Question, FIELDS)
_read_past_question = record(dict, {**FIELDS, "at": timestamp})
_decode_plain = msgspec.json.Decoder(Question).decode


def question_from_body(body: bytes) -> Question:
    """Raises `FieldRefused` with every field that cannot be used."""
    if body.isascii() and b"\\" not in body and b"\x7f" not in body and b"null" not in body:
        try:
            question = _decode_plain(body)
        except msgspec.MsgspecError:
            pass
        else:
            if body.count(b'"') == _quotes(question):
                return question
    told: Question = _read_question(_json(body), "", Notes())
    return told


def _quotes(question: Question) -> int:
    """How many quotes a plain body has when each name of this question stands in it once.

    A name given twice adds quotes, and nothing takes any away, so equality proves that there is none.
    """
    told = structs.astuple(question)
    count = 4 * (len(told) - told.count(None))
    if question.estimated_tokens is not None:
        count -= 2
    if question.residency is not None:
        count += 2 * len(question.residency) - 2
    if question.exclude is not None:
        count += 2 * len(question.exclude) - 2
    return count


def past_question_from_body(body: bytes) -> tuple[Question, str | None]:
    """`/explain`: the same fields, and `at` for a past moment."""
    fields: dict[str, Any] = _read_past_question(_json(body), "", Notes())
    at: str | None = fields.pop("at", None)
    return Question(**fields), at


def _json(body: bytes) -> Any:
    try:
        return read_json(body)
    except NotJson as error:
        raise FieldRefused(error.problem) from None


def question_from_parts(query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Question:
    """A question told in several places. A name given in two of them is refused: which one is meant is a guess."""
    given: dict[str, Any] = {}
    problems: list[FieldProblem] = []
    for source, fields in (("query", query), ("header", headers)):
        for name, value in fields.items():
            if name in given:
                problems.append(FieldProblem(name, "each name once", f"a second one in the {source}"))
            elif name not in FIELDS:
                unknown_field(name, "", FIELDS, Notes(), problems)
            elif value:
                given[name] = _typed(name, value)
    if body:
        told = _json(body)
        if not isinstance(told, dict):
            raise refuse("", "an object", told)
        problems += [FieldProblem(name, "each name once", "a second one in the body") for name in told if name in given]
        given.update(told)
    if problems:
        raise FieldRefused(*problems)
    question: Question = _read_question(given, "", Notes())
    return question


def _typed(name: str, value: str) -> Any:
    """A text from a query or a header as JSON would give it. Lists are separated by commas."""
    if name in LISTS:
        return [item.strip() for item in value.split(",") if item.strip()]
    if name == "estimated_tokens":
        try:
            return float(value)
        except ValueError:
            return value
    return value


def pairs_once(pairs: Iterable[tuple[str, str]], source: str) -> dict[str, str]:
    """Pairs as a mapping. Raises `FieldRefused` for a name given twice."""
    found: dict[str, str] = {}
    twice: list[FieldProblem] = []
    for name, value in pairs:
        if name in found:
            twice.append(FieldProblem(name, "each name once", f"a second one in the {source}"))
        found[name] = value
    if twice:
        raise FieldRefused(*twice)
    return found


def parse_query(query: bytes) -> dict[str, str]:
    """A query string. Raises `FieldRefused` for a name given twice, or bytes that are no UTF-8."""
    pairs = []
    for part in query.split(b"&"):
        if part:
            name, _, value = part.partition(b"=")
            pairs.append((_unquote(name), _unquote(value)))
    return pairs_once(pairs, "query")


def _unquote(value: bytes) -> str:
    if b"+" in value:
        value = value.replace(b"+", b" ")
    if b"%" in value:
        value = unquote_to_bytes(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise FieldRefused(FieldProblem("query", "percent-encoded UTF-8", "other bytes")) from None
