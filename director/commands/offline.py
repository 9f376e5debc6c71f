"""`director decide`: the planner's step and the decision, from files alone. The same code that serves."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from director.core.affinity import KeyRing
from director.core.explain import explain
from director.core.observations import Observations, ReceivedReport
from director.core.policy import Policy
from director.core.request import Request
from director.core.state import PlannerState
from director.core.step import step
from director.core.table import RoutingTable
from director.core.zones import ZoneIndex
from director.http.decision.endpoint import request_of
from director.http.decision.question import question_from_body
from director.http.ingest.read import ReportRejected, read_report
from director.http.reading.fields import FieldRefused, Notes, number, record, refuse, timestamp, timestamp_ms
from director.http.reading.strict_json import NotJson, read_json
from director.policy import PolicyInvalid, load

NO_KEY = KeyRing(current="offline", keys={"offline": bytes(32)})
"""Offline answers carry a token that no director honours."""


class Situation(msgspec.Struct, frozen=True):
    """What `--reports FILE` says: when it is, what each region last reported, and what the planner remembered."""

    now_ms: int
    reports: tuple[ReceivedReport, ...]
    state: PlannerState


@click.command("decide")
@click.option(
    "--policy", "policy_path", type=click.Path(path_type=Path), required=True, help="A policy folder or file."
)
@click.option("--reports", "reports_path", type=click.Path(path_type=Path), required=True, help="JSON; - reads stdin.")
@click.option("--request", "request_text", required=True, help="The request as JSON, or a file that holds it.")
def decide_command(policy_path: Path, reports_path: Path, request_text: str) -> None:
    """Decide offline, and say why: prints the object of /explain. Exit 1 when no region is left.

    The file of reports: {"now": "2026-11-30T20:51:07Z", "reports": {"eu-west-1": {"age_s": 2, "report": {…}}},
    "state": null}.
    """
    try:
        policy = load(policy_path).policy
    except PolicyInvalid as error:
        _unusable(*(str(problem) for problem in error.problems))
    situation = _situation(_read(reports_path), str(reports_path))
    request = _request(request_text, policy)
    explanation = explain_offline(policy, situation, request)
    click.echo(msgspec.json.format(msgspec.json.encode(explanation), indent=2))
    if explanation.region is None:
        raise click.exceptions.Exit(1)


def explain_offline(policy: Policy, situation: Situation, request: Request) -> Any:
    """One step of the planner over the reports, then the explanation of what follows for the request."""
    observations = Observations(reports=situation.reports, policy_version=1)
    result = step(situation.state, observations, policy, situation.now_ms)
    plan = result.plan or result.state.plan
    assert plan is not None, "a first step always publishes, and a later one keeps what it published"
    return explain(RoutingTable(plan, policy, NO_KEY), request, situation.now_ms, result.state)


def _request(text: str, policy: Policy) -> Request:
    given = text if text.lstrip().startswith("{") else _read(Path(text)).decode("utf-8", "replace")
    try:
        question = question_from_body(given.encode())
        return request_of(question, policy, ZoneIndex(policy), random_key="offline")
    except FieldRefused as refused:
        _unusable(*(f"--request: {problem}" for problem in refused.problems))


def _situation(raw: bytes, source: str) -> Situation:
    try:
        fields: dict[str, Any] = _read_situation(read_json(raw), "", Notes())
    except NotJson as error:
        _unusable(f"{source}: {error}")
    except FieldRefused as refused:
        _unusable(*(f"{source}: {problem}" for problem in refused.problems))
    now_ms = timestamp_ms(fields["now"]) if "now" in fields else time.time_ns() // 1_000_000
    assert now_ms is not None
    reports = tuple(
        ReceivedReport(region, now_ms - int(told["age_s"] * 1000), _report(region, told["report"], source))
        for region, told in sorted(fields["reports"].items())
    )
    return Situation(now_ms=now_ms, reports=reports, state=_state(fields.get("state"), source))


def _report(region: str, told: Any, source: str) -> Any:
    """A report as a director takes it in: what is dropped or doubtful is said on standard error."""
    path = f"{source}: reports.{region}.report"
    try:
        read = read_report(msgspec.json.encode(told))
    except ReportRejected as rejected:
        _unusable(*(f"{path}.{problem}" for problem in rejected.errors))
    for warning in read.warnings:
        click.echo(f"{path}.{warning}", err=True)
    for dropped in read.dropped:
        for problem in dropped.errors:
            click.echo(f"{path}.{problem} (this deployment is left out)", err=True)
    return read.report


def _state(told: Any, source: str) -> PlannerState:
    if told is None:
        return PlannerState()
    try:
        return msgspec.convert(told, PlannerState)
    except msgspec.ValidationError as error:
        _unusable(f"{source}: state: {error}")


def _anything(value: Any, path: str, notes: Notes) -> Any:
    return value


_read_told = record(dict, {"age_s": number(), "report": _anything}, required=("age_s", "report"))


def _reports(value: Any, path: str, notes: Notes) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refuse(path, "an object of region → report", value)
    return {region: _read_told(told, f"{path}.{region}", notes) for region, told in value.items()}


_read_situation = record(dict, {"now": timestamp, "reports": _reports, "state": _anything}, required=("reports",))


def _read(path: Path) -> bytes:
    if str(path) == "-":
        return sys.stdin.buffer.read()
    try:
        return path.read_bytes()
    except OSError as error:
        _unusable(f"{path}: {error.strerror}")


def _unusable(*lines: str) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise click.exceptions.Exit(2)
