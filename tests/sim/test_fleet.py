"""Whole runs: determinism, conservation, residency, faults, and the baselines beside the director."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from director.sim import figures
from director.sim.baselines import BASELINES
from director.sim.fleet import EPOCH_MS, Run
from director.sim.measure import Record
from director.sim.steering import Ask, Choice
from director.sim.world.clients import Edge
from tests.sim.scenarios import small


def _play(policy: str = "director", **changes: object) -> Record:
    return Run(small(**changes), policy).play()


def _figures(record: Record) -> dict[str, float]:
    return {key: value for key, value in figures.summary(record).items() if key != "wall_s"}


@pytest.mark.parametrize("policy", ["director", *BASELINES])
def test_a_seed_gives_the_same_run_to_the_last_digit(policy: str) -> None:
    first, second = _play(policy), _play(policy)
    assert _figures(first) == _figures(second)
    assert first.streams["north"].ttft_s == second.streams["north"].ttft_s


def test_another_seed_gives_another_run() -> None:
    assert _figures(_play(seed=1)) != _figures(_play(seed=2))


def test_every_policy_is_asked_the_same_questions() -> None:
    """Arrivals do not depend on who answers: that is what makes a comparison one."""
    asked = [_play(policy).streams["north"].asked for policy in ("director", "ramp", "nearest")]
    assert asked[0] == asked[1] == asked[2]


@pytest.mark.parametrize("policy", ["director", *BASELINES])
def test_every_request_is_accounted_for(policy: str) -> None:
    """What was asked went somewhere or was refused; what finished had begun."""
    record = _play(policy, demand__north__steps=[[0, 0.5], [40, 2.5]])
    for stream in record.streams.values():
        for second in range(record.seconds):
            went = sum(counts[second] for counts in stream.went.values())
            assert went + stream.refused[second] == stream.asked[second]
        assert len(stream.e2e_s) <= len(stream.ttft_s) <= sum(stream.asked)


@pytest.mark.parametrize("policy", ["director", *BASELINES])
def test_nobody_goes_where_the_rule_forbids(policy: str) -> None:
    """A tenant of the EU stays there, overloaded or not, and through an outage of its only region."""
    record = _play(
        policy,
        demand__north__tenant="acme",
        demand__north__steps=[[0, 0.5], [30, 2.0]],
        faults=[{"kind": "outage", "regions": ["north"], "at_s": 70, "until_s": 90}],
    )
    assert record.forbidden == 0
    assert sum(record.streams["north"].went["south"]) == 0


def test_the_director_stays_local_while_home_is_well() -> None:
    record = _play()
    late = slice(60, 120)
    for name, stream in record.streams.items():
        assert sum(stream.went[name][late]) == sum(stream.asked[late])


def test_the_director_overflows_and_the_nearest_does_not() -> None:
    """At twice home's capacity the director sends the excess next door, where a nearest-only policy queues."""
    changes = {"demand__north__steps": [[0, 0.5], [40, 1.6]], "demand__south__steps": [[0, 0.2]]}
    ours, theirs = _play("director", **changes), _play("nearest", **changes)
    assert sum(ours.streams["north"].went["south"]) > 0
    assert sum(theirs.streams["north"].went["south"]) == 0
    assert max(ours.regions["north"].utilisation) < max(theirs.regions["north"].utilisation)


def test_an_outage_moves_traffic_and_sessions_stay_where_they_went() -> None:
    """Nobody knocks at a dark region once it is known; a session that left does not come back when it returns."""
    record = _play(
        faults=[{"kind": "outage", "regions": ["north"], "at_s": 30, "until_s": 70}],
        demand__north__sessions={"later_turns": 0.7, "life_s": 100},
        demand__south__steps=[[0, 0.2]],
        duration_s=150,
    )
    assert sum(record.regions["north"].attempts[64:70]) == 0
    assert record.lost > 0
    assert sum(record.streams["north"].moved[75:]) == 0
    assert sum(record.streams["north"].turns[75:]) > 0


def test_probes_keep_a_silent_region_that_lives() -> None:
    """An agent that dies takes its region's traffic with it unless the director reaches the gateway itself."""
    silent = {"faults": [{"kind": "agent_silent", "regions": ["north"], "at_s": 30}], "duration_s": 100}
    alone, probed = _play(**silent), _play(**silent, probes=True)
    assert sum(alone.streams["north"].went["north"][80:]) == 0
    assert sum(probed.streams["north"].went["north"][80:]) > 0


def test_a_drained_region_takes_no_new_sessions() -> None:
    record = _play(faults=[{"kind": "drain", "regions": ["north"], "at_s": 40, "until_s": 80}])
    assert sum(record.streams["north"].new["north"][43:80]) == 0
    assert sum(record.streams["north"].new["north"][90:]) > 0


def test_errors_are_retried_on_a_fallback() -> None:
    """With every second answer an error, hardly anything fails for good."""
    record = _play(faults=[{"kind": "errors", "regions": ["north"], "at_s": 30, "share": 0.5}])
    asked = sum(record.streams["north"].asked[30:])
    assert sum(record.regions["north"].attempts[30:]) + sum(record.regions["south"].attempts[30:]) > asked
    assert sum(record.streams["north"].failed[30:]) < 0.02 * asked


def test_an_autoscaler_adds_replicas_after_their_start_up() -> None:
    record = _play(
        fleet__north__chat__autoscale={"replicas_min": 2, "replicas_max": 4, "every_s": 10, "startup_s": 20},
        demand__north__steps=[[0, 1.4]],
        policies=["nearest"],
    )
    assert max(record.regions["north"].replicas[:25]) == 2
    assert max(record.regions["north"].replicas) > 2


def test_resolvers_ask_once_for_each_ttl() -> None:
    """Ten resolvers and a TTL of 30 s: four to five questions each in two minutes, whatever their clients do."""
    record = _play(demand__north__resolvers={"count": 10, "ttl_s": 30}, demand__south__steps=[[0, 0.0]])
    assert 40 <= record.dns_queries <= 50
    assert record.requests > 500


def test_an_l7_that_reuses_an_answer_spreads_by_its_shares() -> None:
    """Two equal regions, one question in 10 s: both get their part of each ten seconds, not all of it in turn."""
    record = _play(
        policy__rtt_ms={"north": {"north": 10, "south": 10}, "south": {"north": 10, "south": 10}},
        demand__north__edge={"count": 1, "reuse_s": 10},
        demand__south__steps=[[0, 0.0]],
    )
    stream = record.streams["north"]
    for start in range(40, 110, 10):
        went = sum(stream.went["north"][start : start + 10])
        assert 0.15 < went / sum(stream.asked[start : start + 10]) < 0.85
    assert sum(stream.asked) > 0


def test_a_reused_answer_is_picked_by_the_key() -> None:
    """What is kept are shares: each key falls on its own region, always the same, and in their proportion. The kept
    token binds only who enters the region that it names; a refused part is refused."""
    edge = Edge("edge-0", 0.5)
    edge.keep(Choice("north", "home", {"north": 0.5, "south": 0.3}, ("south",), "token of north"), until_s=2.0)
    choices = {f"key-{i}": edge.reuse(f"key-{i}") for i in range(2000)}
    regions = Counter(choice.region for choice in choices.values())
    assert regions["north"] == pytest.approx(1000, abs=100)
    assert regions["south"] == pytest.approx(600, abs=90)
    assert regions[None] == pytest.approx(400, abs=80)
    assert all(edge.reuse(key) == choice for key, choice in choices.items())
    assert {choice.affinity for choice in choices.values() if choice.region == "north"} == {"token of north"}
    assert {choice.affinity for choice in choices.values() if choice.region != "north"} == {None}
    assert choices[next(key for key in choices if choices[key].region == "south")].fallbacks[0] == "north"


def test_a_refusal_is_not_kept() -> None:
    """An L7 that keeps answers for a minute asks again after a refusal, and not again after an answer."""
    run = Run(small(demand__north__edge={"count": 1, "reuse_s": 60}), "director")
    client, asked = run.clients[0], []

    def choose(ask: Ask, now_ms: int) -> Choice:
        asked.append(now_ms)
        return Choice(None, "refused", {}) if len(asked) == 1 else Choice("north", "home", {"north": 1.0})

    for at_s in (1.0, 2.0, 3.0, 4.0):
        client.request(at_s, int(at_s), choose)
    assert asked == [1, 2]
    assert list(run.record.streams["north"].refused[:5]) == [0, 1, 0, 0, 0]


def test_a_region_with_stages_apart_sheds_what_the_worse_one_cannot_take() -> None:
    """Reports name both stages; with prefill short, its queue stays short and the decode stage is never half full."""
    run = Run(
        small(
            duration_s=300,
            fleet__north__chat={"engine": "gpu", "replicas": 4, "prefill_replicas": 2},
            engines__gpu__prefill_tokens_per_s=8000,
            demand__north__steps=[[0, 0.5], [100, 1.5]],
            demand__south__steps=[[0, 0.1]],
            fleet__south__chat__replicas=8,
        ),
        "director",
    )
    record = run.play()
    stages = run._reports["north"].report.deployments[0].stages
    assert stages is not None
    assert (stages.prefill.max_running, stages.decode.max_running) == (8, 256)
    assert max(figures.share_series(record, "north", "south")[150:]) > 0.2


def test_reports_are_noisy_dropped_and_late_as_the_scenario_says() -> None:
    quiet = Run(small(reports={"interval_s": 5, "drop": 1.0}), "director")
    quiet.play()
    sequences = {received.report.sequence for received in quiet._reports.values()}
    assert sequences == {1} or sequences == set(), "none but the very first can have arrived"
    noisy = Run(small(reports={"interval_s": 5, "noise": 0.2}), "director")
    noisy.play()
    deployment = noisy._reports["north"].report.deployments[0]
    assert deployment.running is not None
    assert deployment.running != round(deployment.running), "a count that noise touched is no whole number"


def test_cost_is_that_of_the_region_that_served() -> None:
    """Prices 2 and 1 a million tokens: the mean lies between them, and near 2 for traffic that stays in the north."""
    record = _play(demand__south__steps=[[0, 0.0]])
    assert figures.summary(record)["price_per_mtok"] == pytest.approx(2.0, rel=0.1)


def test_reports_arrive_late_by_their_delay() -> None:
    """What the planner holds at the end was observed a delay before it came."""
    run = Run(small(reports={"interval_s": 5, "delay_s": 3}), "director")
    run.play()
    for received in run._reports.values():
        observed_s = float(received.report.observed_at.removeprefix("T+"))
        assert (received.received_at_ms - EPOCH_MS) / 1000.0 == pytest.approx(observed_s + 3.0, abs=0.01)


def test_a_trace_file_is_asked_for_as_it_was_recorded(tmp_path: Path) -> None:
    """Ten requests of one size in the file's minute, twice in two minutes, and those tokens are what is served."""
    rows = [json.dumps({"timestamp": 6000 * i, "input_length": 700, "output_length": 20}) for i in range(10)]
    rows.append(json.dumps({"timestamp": 59_999, "input_length": 700, "output_length": 20}))
    (tmp_path / "trace.jsonl").write_text("\n".join(rows) + "\n")
    trace = {"path": str(tmp_path / "trace.jsonl"), "format": "mooncake"}
    record = _play(demand__north={"zone": "north", "tenant": "open", "trace": trace}, demand__south__steps=[[0, 0.0]])
    assert record.requests == 22
    assert sum(record.regions["north"].tokens) in (21 * 720, 22 * 720), "the last may still run"


def test_resolvers_are_of_unequal_size() -> None:
    """By Zipf's law with exponent 1 the largest of ten stands for a third of the clients, and moves as a whole."""
    run = Run(small(demand__north__resolvers={"count": 10, "ttl_s": 30, "zipf": 1.0}), "director")
    resolving = run.clients[0]._resolvers
    assert resolving is not None
    sizes = Counter(resolving._table)
    assert sizes[0] / resolving.TABLE == pytest.approx(0.341, abs=0.01)
    assert sizes[9] / resolving.TABLE == pytest.approx(0.034, abs=0.01)


def test_sessions_find_their_prefix_where_they_were() -> None:
    """Later turns save a part of their prompts; requests that belong to nobody save none."""
    sessions = {"later_turns": 0.7, "life_s": 60}
    assert figures.summary(_play(demand__north__sessions=sessions))["prefix_hit_ratio"] > 0.1
    assert figures.summary(_play())["prefix_hit_ratio"] == 0.0


def test_short_kv_preempts_in_a_run() -> None:
    """Overloaded with KV for a fifth of the slots, engines put requests back; with plenty they never do."""
    short = {"engines__gpu__kv_tokens": 20_000, "engines__gpu__kv_admit": 1.0}
    assert figures.summary(_play("nearest", demand__north__steps=[[0, 1.5]], **short))["preempted"] > 0
    assert figures.summary(_play("nearest", demand__north__steps=[[0, 1.5]]))["preempted"] == 0
