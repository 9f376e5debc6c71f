"""The form of values: keys, types, ranges, absences."""

from __future__ import annotations

import pytest

from tests.policy.samples import SAMPLE, accepted, changed, line_of, refused


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [
        ("spread_ms: 8", "spread: 8", "objectives.interactive.spread", 'unknown key; did you mean "spread_ms"?'),
        ("planner:", "planer:", "planer", 'did you mean "planner"?'),
        ("open_s: 10", "zzz: 10", "breaker.zzz", "expected one of ejected_capacity_max, failures_to_open"),
        (
            "spread_ms: 8",
            "spread_ms: eight",
            "objectives.interactive.spread_ms",
            '"eight" stands here; expected a number',
        ),
        ("spread_ms: 8", "spread_ms: '8'", "objectives.interactive.spread_ms", "is in quotes"),
        ("spread_ms: 8", "spread_ms: true", "objectives.interactive.spread_ms", "expected a number at least 0"),
        (
            "spread_ms: 8",
            "spread_ms: -1",
            "objectives.interactive.spread_ms",
            "out of range; expected a number at least 0",
        ),
        ("spread_ms: 8", "spread_ms: .nan", "objectives.interactive.spread_ms", "out of range"),
        ("spread_ms: 8", "spread_ms: 1e999", "objectives.interactive.spread_ms", "out of range"),
        ("spread_ms: 8", "spread_ms: [8]", "objectives.interactive.spread_ms", "a list stands here"),
        ("spread_ms: 8", "spread_ms: null", "objectives.interactive.spread_ms", "nothing stands here"),
        ("max_rtt_ms: 250", "max_rtt_ms: 0", "objectives.interactive.max_rtt_ms", "above 0"),
        ("lat: 38.95", "lat: 138.95", "regions.us-east-1.location.lat", "expected a number from -90 to 90"),
        ("open_s: 10", "failures_to_open: 1.5", "breaker.failures_to_open", "no whole number"),
        ("open_s: 10", "failures_to_open: 2.0", "breaker.failures_to_open", 'did you mean "2"?'),
        ("open_s: 10", "failures_to_open: 99999999999999999999", "breaker.failures_to_open", "from 1 to 1,000,000"),
        ("fresh_for_s: 10", "home_target: 1.5", "planner.home_target", "expected a number from 0 to 1"),
        ("fresh_for_s: 10", "overload_ceiling: 0.9", "planner.overload_ceiling", "expected a number from 1 to 2"),
        (
            "when_none: fallback",
            "when_none: servfial",
            None,
            '; did you mean "servfail"?',
        ),
        ("when_none: fallback", "https: yes", None, 'expected true or false; did you mean "true"?'),
        ("objective: interactive", "objective: 3", "models.chat-70b.objective", "is not text here"),
        (
            "objective: interactive",
            "objective: interactive, version: 1.0",
            "models.chat-70b.version",
            "did you mean \"'1.0'\"?",
        ),
        (
            "objective: interactive",
            'objective: interactive, version: ""',
            "models.chat-70b.version",
            "text that is not empty",
        ),
        ("objective: interactive", 'objective: "a\\nb"', "models.chat-70b.objective", "control characters"),
        (
            '[203.0.113.0/24, "2001:db8:1::/48"]',
            "203.0.113.0/24",
            "client_zones.europe.networks",
            'did you mean "[203.0.113.0/24]"?',
        ),
        ("{residency: anywhere}", "{residency: anywere}", "tenants.open.residency", 'did you mean "anywhere"?'),
        ("{residency: anywhere}", "{residency: [EU]}", "tenants.open.residency", "a list stands here"),
        ("{residency: anywhere}", "{residency: }", "tenants.open.residency", "nothing stands here"),
        ("{residency: anywhere}", "{}", "tenants.open.residency", "is missing"),
        ("{residency: anywhere}", "", "tenants.open", "nothing stands here"),
        ("    endpoint: https://us.example.net\n", "", "regions.us-east-1.endpoint", "is missing"),
        ("breaker: {open_s: 10}", "breaker: [open_s]", "breaker", "a list stands here"),
        ("geoip: null", "<<: {}", '"<<"', "merge keys"),
    ],
)
def test_a_value_of_the_wrong_form_is_refused_where_it_stands(old: str, new: str, path: str | None, words: str) -> None:
    """Path, line, what is wrong and what was expected, for every kind of slip."""
    problems = refused(changed(old, new))
    problem = problems[0]
    assert len(problems) == 1
    assert path is None or problem.path == path
    assert words in str(problem)
    if new and "missing" not in words:
        assert problem.line == line_of(SAMPLE, old)


@pytest.mark.parametrize(
    ("wrong", "suggestion"),
    [("EU_West_1", "eu-west-1"), ("eu west 1", "eu-west-1"), ("-eu", "eu"), ("eu-", "eu"), ("x" * 64, ""), ("é", "")],
)
def test_region_ids_are_lowercase_letters_digits_and_hyphens(wrong: str, suggestion: str) -> None:
    """Any other id is refused, with one that would do where it can be guessed."""
    text = changed("  us-east-1:\n", f'  "{wrong}":\n')
    found = [problem for problem in refused(text) if "lowercase letters, digits and hyphens" in problem.expected]
    assert [problem.suggestion for problem in found] == [suggestion]
    assert found[0].line == line_of(SAMPLE, "  us-east-1:\n")


def test_hyphens_work_everywhere() -> None:
    """Names with hyphens, dots and slashes are names: ids of regions, models with an organisation, versions."""
    text = (
        SAMPLE.replace("chat-70b", "meta-llama/chat-70b.v1").replace("acme", "acme-corp").replace("europe", "eu-rope-1")
    )
    policy = accepted(text).policy
    assert policy.dns["infer.example.com"].names["chat.eu"].model == "meta-llama/chat-70b.v1"
    assert policy.tenants["acme-corp"].residency.allow == ("EU",)


def test_a_slip_has_no_echo() -> None:
    """One wrong value is one problem: what only follows from it is not reported beside it."""
    assert len(refused(changed("allow: [EU]", "allow: EU"))) == 1
    assert len(refused(changed("lat: 53.35", "lat: north"))) == 1
    assert len(refused(changed("fallback: {A: [192.0.2.10]}", "fallback: {A: 192.0.2.10}"))) == 1
    assert len(refused(changed("nameservers: {ns1.infer.example.com: [192.0.2.53]}", "nameservers: x"))) == 1
