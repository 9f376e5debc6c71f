"""Folders, files, and what comes out of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from director.core.policy import Policy, Residency
from director.policy import PolicyInvalid, load, load_files
from tests.policy.samples import EXAMPLE, SAMPLE, accepted, changed, line_of, refused


def test_the_example_loads_without_a_warning() -> None:
    """What the project ships is what it recommends."""
    loaded = load(EXAMPLE)
    assert loaded.warnings == ()
    assert len(loaded.policy.regions) == 5
    assert set(loaded.files) == {"dns.yaml", "fleet.yaml", "network.yaml", "tenants.yaml"}


def test_a_loaded_policy_can_be_loaded_again_from_its_files() -> None:
    """What is stored (the texts) gives the same policy as the folder did."""
    loaded = load(EXAMPLE)
    assert load_files(loaded.files) == loaded


def test_a_policy_survives_json() -> None:
    """Policy → JSON → Policy is the identity: what replicas receive is what was checked."""
    policy = load(EXAMPLE).policy
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


def test_the_sample_reads_as_written() -> None:
    """Values, defaults and the word `anywhere` end where they belong."""
    policy = accepted(SAMPLE).policy
    assert policy.tenants["open"].residency == Residency(anywhere=True)
    assert policy.tenants["acme"].residency == Residency(allow=("EU",), forbid=("US",))
    assert policy.regions["eu-west-1"].capacity_max == {"chat-70b": 400_000.0}
    assert policy.planner.home_target == 0.90
    assert policy.rtt_ms["europe"]["us-east-1"] == 88.0


def test_one_file_is_a_policy_too(tmp_path: Path) -> None:
    """`load` takes a file as well as a folder; messages name it as it was given."""
    path = tmp_path / "policy.yaml"
    path.write_text(SAMPLE)
    assert load(path).policy == accepted(SAMPLE).policy
    path.write_text(changed("open_s:", "opne_s:"))
    with pytest.raises(PolicyInvalid, match="opne_s") as refusal:
        load(path)
    assert refusal.value.problems[0].file == str(path)


def test_files_of_a_folder_are_merged_by_section(tmp_path: Path) -> None:
    """A section may be spread over files; folders below, hidden files and other suffixes are left alone."""
    head, tail = SAMPLE.split("  open: {residency: anywhere}\n")
    (tmp_path / "a.yaml").write_text(head + tail)
    (tmp_path / "b.yml").write_text("tenants:\n  open: {residency: anywhere}\n")
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    (tmp_path / "notes.txt").write_text("tenants: [")
    (tmp_path / ".hidden.yaml").write_text("tenants: [")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "x.yaml").write_text("tenants: [")
    loaded = load(tmp_path)
    assert loaded.policy == accepted(SAMPLE).policy
    assert set(loaded.files) == {"a.yaml", "b.yml", "empty.yaml"}


def test_the_same_name_in_two_files_is_refused() -> None:
    """Nothing is overridden silently: the second place is named, and the first."""
    with pytest.raises(PolicyInvalid) as refusal:
        load_files({"a.yaml": SAMPLE, "b.yaml": "\n\ntenants:\n  acme: {residency: anywhere}\n"})
    (problem,) = refusal.value.problems
    assert (problem.file, problem.line, problem.path) == ("b.yaml", 4, "tenants.acme")
    assert "a.yaml:20" in problem.message


def test_a_list_section_in_two_files_is_refused() -> None:
    """Lists and single values do not merge: which would win?"""
    with pytest.raises(PolicyInvalid) as refusal:
        load_files({"a.yaml": SAMPLE, "b.yaml": "jurisdictions: [JP]"})
    assert (
        str(refusal.value)
        == "b.yaml:1: jurisdictions: given twice; the first stands in a.yaml:1; expected each key once"
    )


def test_an_anchor_shared_by_two_sections_stays_two_values() -> None:
    """Merging into one section leaves the other, made from the same anchor, as it was."""
    text = changed(
        "rtt_ms:\n  europe: {eu-west-1: 12, us-east-1: 88}\n", "rtt_ms: &rows\n  europe: {eu-west-1: 1, us-east-1: 2}\n"
    )
    text = text.replace(
        "egress_price_per_mtok:\n  europe: {eu-west-1: 0.01, us-east-1: 0.02}\n", "egress_price_per_mtok: *rows\n"
    )
    more = "rtt_ms:\n  default: {eu-west-1: 90, us-east-1: 90}\n"
    policy = load_files({"a.yaml": text, "b.yaml": more}).policy
    assert set(policy.rtt_ms) == {"europe", "default"}
    assert set(policy.egress_price_per_mtok) == {"europe"}


def test_a_path_that_holds_nothing_is_said(tmp_path: Path) -> None:
    """A missing folder, an empty one, and no files at all are problems like any other."""
    for path, words in ((tmp_path / "missing", "does not exist"), (tmp_path, "holds no policy file")):
        with pytest.raises(PolicyInvalid, match=words):
            load(path)
    with pytest.raises(PolicyInvalid, match="no policy file"):
        load_files({})


def test_a_file_that_is_no_utf8_is_said(tmp_path: Path) -> None:
    """Bytes that are no text name their place."""
    (tmp_path / "a.yaml").write_bytes(b"tenants: \xff")
    with pytest.raises(PolicyInvalid, match="not UTF-8 at byte 9"):
        load(tmp_path)


def test_a_link_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    """A part of the policy that drops out silently could open a region."""
    (tmp_path / "a.yaml").write_text(SAMPLE)
    (tmp_path / "b.yaml").symlink_to(tmp_path / "gone")
    with pytest.raises(PolicyInvalid, match=r"b\.yaml: leads nowhere"):
        load(tmp_path)


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    """An editor's habits change neither values nor line numbers."""
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SAMPLE.replace("\n", "\r\n").encode())
    assert load(path).policy == accepted(SAMPLE).policy
    path.write_bytes(b"\xef\xbb\xbf" + changed("open_s:", "opne_s:").replace("\n", "\r\n").encode())
    with pytest.raises(PolicyInvalid, match=f"a.yaml:{line_of(SAMPLE, 'open_s:')}: breaker.opne_s"):
        load(path)


def test_a_message_is_one_line_whatever_the_key() -> None:
    """Keys with line ends, quotes and great length are shown safely."""
    for key in ('"a\\nb"', '"\\e[31m"', "x" * 5_000, '"\\ud800"'):
        (problem,) = refused(SAMPLE + f"? {key}\n: 1\n")
        assert str(problem).isprintable()
        assert len(str(problem)) < 1_000


@pytest.mark.parametrize("name", ["../etc/passwd.yaml", "a/b.yaml", "x.json", "", ".yaml", "a\n.yaml"])
def test_file_names_from_outside_are_names(name: str) -> None:
    """Whatever comes in over the network may later be written to a folder: no path, no surprise."""
    with pytest.raises(PolicyInvalid, match="no name of a policy file"):
        load_files({name: SAMPLE})


def test_every_problem_is_reported_at_once() -> None:
    """An operator mends a file once, not once for each mistake."""
    text = changed("fresh_for_s: 10", "fresh_for: 10").replace("model: chat-70b}", "model: chat-7b}")
    text = text.replace("lat: 53.35", "lat: 530").replace("allow: [EU]", "allow: [EUR]")
    paths = {problem.path for problem in refused(text)}
    assert paths == {
        "planner.fresh_for",
        'dns."infer.example.com".names.chat.model',
        "regions.eu-west-1.location.lat",
        "tenants.acme.residency.allow[0]",
    }


def test_problems_beyond_a_bound_are_counted() -> None:
    """A file of quite another kind gives some hundred lines, not a million."""
    problems = refused(SAMPLE + "".join(f"key{number}: 1\n" for number in range(2_000)))
    assert len(problems) == 501
    assert problems[0].message == "1,500 more problems"


def test_a_problem_reads_as_one_line() -> None:
    """file:line: path: what; expected; did you mean."""
    (problem,) = refused(changed("allow: [EU]", "alow: [EU]"))
    assert str(problem) == 'p.yaml:20: tenants.acme.residency.alow: unknown key; did you mean "allow"?'
