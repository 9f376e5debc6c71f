"""A report's bytes → what can be used of it.

A region that sends one bad deployment must not lose the others, and a region that is one release ahead must not go
dark. So a bad deployment is dropped alone, by name, and unknown fields are passed over when the report's schema is
newer than ours. Everything else that is wrong refuses the report as a whole: nothing is half-applied.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from director.core.report import SCHEMA, DeploymentReport, Report
from director.http.ingest.rules import DEPLOYMENT, DEPLOYMENTS_MAX, REPORT_FIELDS, REPORT_REQUIRED
from director.http.problem import FieldProblem
from director.http.reading.fields import FieldRefused, Notes, describe, near_miss, record, refuse
from director.http.reading.strict_json import NotJson, Unreadable, read_json

LISTED_MAX = 100
"""Warnings and dropped deployments that an answer lists; beyond, their number says enough."""


class Dropped(Struct, frozen=True, omit_defaults=True):
    """A deployment that was left out, by name where it had one, and why."""

    position: int
    errors: tuple[FieldProblem, ...]
    model: str | None = None
    version: str | None = None


class ReadReport(Struct, frozen=True):
    report: Report
    warnings: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    ignored_fields: tuple[str, ...]
    """Fields that a newer schema has and ours does not know; list positions are left out, so equal lists are equal."""


class ReportRejected(Exception):
    """The region sent something that cannot be used at all."""

    def __init__(self, detail: str, errors: tuple[FieldProblem, ...] = (), dropped: tuple[Dropped, ...] = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = errors
        self.dropped = dropped


def read_report(raw: bytes) -> ReadReport:
    """Validate a report. Raises `ReportRejected` when nothing of it can be used."""
    try:
        value = read_json(raw)
    except NotJson as error:
        raise ReportRejected(str(error), (error.problem,)) from None
    if not isinstance(value, dict):
        raise ReportRejected("a report is an object", refuse("", "an object", value).problems)
    deployments = value.pop("deployments", None)
    notes = Notes(ignore_unknown=_is_newer(value))
    head = _read_head(value, notes)
    kept, dropped = _read_deployments(deployments, notes)
    if dropped and not kept:
        errors = tuple(error for one in dropped[:LISTED_MAX] for error in one.errors)
        raise ReportRejected("no deployment of the report can be used", errors, dropped)
    return ReadReport(
        report=Report(deployments=kept, **head),
        warnings=tuple(notes.warnings),
        dropped=dropped,
        ignored_fields=tuple(dict.fromkeys(_without_positions(path) for path in notes.ignored)),
    )


def _is_newer(value: dict[str, Any]) -> bool:
    schema = value.get("schema")
    return isinstance(schema, int) and not isinstance(schema, bool) and schema > SCHEMA


_head = record(dict, REPORT_FIELDS, required=REPORT_REQUIRED)
_KNOWN_AT_ROOT = (*REPORT_FIELDS, "deployments")


def _read_head(value: dict[str, Any], notes: Notes) -> dict[str, Any]:
    try:
        head: dict[str, Any] = _head(value, "", notes)
    except FieldRefused as refused:
        # A misspelt `deployments` is unknown at the root, where the head's own table does not list it.
        errors = tuple(
            FieldProblem(e.path, "a known field", e.got, near_miss(e.path, _KNOWN_AT_ROOT))
            if e.got == "an unknown field"
            else e
            for e in refused.problems
        )
        raise ReportRejected("; ".join(map(str, errors)), errors) from None
    return head


def _read_deployments(listed: Any, notes: Notes) -> tuple[tuple[DeploymentReport, ...], tuple[Dropped, ...]]:
    if not isinstance(listed, list):
        raise ReportRejected("deployments: expected a list", refuse("deployments", "a list", listed).problems)
    if len(listed) > DEPLOYMENTS_MAX:
        problem = FieldProblem("deployments", f"at most {DEPLOYMENTS_MAX} entries", str(len(listed)))
        raise ReportRejected(str(problem), (problem,))
    kept: dict[tuple[str, str], DeploymentReport] = {}
    dropped: list[Dropped] = []
    for position, item in enumerate(listed):
        path = f"deployments[{position}]"
        try:
            one: DeploymentReport = DEPLOYMENT(item, path, notes)
            if (one.model, one.version) in kept:
                raise FieldRefused(FieldProblem(path, "each model and version once", "a second entry for the same"))
        except FieldRefused as refused:
            dropped.append(Dropped(position, refused.problems, _name(item, "model"), _name(item, "version")))
        else:
            kept[one.model, one.version] = one
            _doubt(one, path, notes)
    return tuple(kept.values()), tuple(dropped)


def _doubt(one: DeploymentReport, path: str, notes: Notes) -> None:
    """Say what is odd and can be used all the same."""
    if one.replicas.ready > one.replicas.total:
        notes.warnings.append(f"{path}.replicas: {one.replicas.ready} ready of {one.replicas.total} in total")
    if one.scraped is not None and one.scraped.answered > one.scraped.of:
        notes.warnings.append(f"{path}.scraped: {one.scraped.answered} answered of {one.scraped.of}")


def _name(item: Any, field: str) -> str | None:
    if not isinstance(item, dict):
        return None
    value = item.get(field)
    return None if value is None or isinstance(value, Unreadable) else describe(value).strip("'")


def _without_positions(path: str) -> str:
    head, bracket, rest = path.partition("[")
    return f"{head}[]{rest.partition(']')[2]}" if bracket else path
