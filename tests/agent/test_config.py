"""A configuration is refused where it is wrong, with the field and what was expected; all problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from director.agent.config import ConfigInvalid
from director.agent.config_file import load

GOOD = """
region: eu-west-1
directors: [{url: https://director.example.net, token: secret}]
deployments:
  - model: llama-3.3-70b
    version: 2026-08-14
    engine: vllm
    sources: [{static: [http://10.0.0.7:8000]}, {epp: http://10.0.0.2:9090, pool: llama}]
"""


def problems(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigInvalid) as caught:
        load(path)
    return caught.value.problems


def test_a_date_is_a_version_and_defaults_hold(tmp_path: Path) -> None:
    """YAML would make 2026-08-14 a date; here it is a name."""
    path = tmp_path / "agent.yaml"
    path.write_text(GOOD, encoding="utf-8")
    config = load(path)
    assert config.deployments[0].version == "2026-08-14"
    assert config.interval_s == 5.0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("engine: vllm", "engin: vllm"), "deployments[0]: unknown key 'engin'; did you mean \"engine\"?"),
        (("engine: vllm", "engine: vlm"), "deployments[0].engine"),
        (("token: secret", "token: 5"), "directors[0].token: expected `str | null`, got `int`"),
        ((", token: secret", ""), "directors[0]: expected exactly one of token, token_file, token_env; got none"),
        (("http://10.0.0.7:8000", "10.0.0.7:8000"), "deployments[0].sources[0].static[0]: expected an http"),
        (("pool: llama", "pool: llama, static: [http://x]"), "deployments[0].sources[1]: expected exactly one of"),
        (("region: eu-west-1", "region: EU West"), "region: expected lowercase letters"),
        (("region: eu-west-1", "region: eu-west-1\nregion: b"), "duplicate key"),
        (("region: eu-west-1", "region: eu-west-1\ninterval_s: 0.1"), "interval_s: expected 0.5 to 60.0"),
        (("region: eu-west-1", "region: eu-west-1\nscrape_timeout_s: 9"), "scrape_timeout_s: expected"),
        (("region: eu-west-1\n", ""), "missing required field `region`"),
        (("{static: [http://10.0.0.7:8000]}", "{static: [http://a], stage: prefill}"), "both or neither"),
        (("{epp: http://10.0.0.2:9090, pool: llama}", "{static: [http://a], stage: decode}"), "all replicas or none"),
        (("engine: vllm", "adapters: {loadabel: [x]}"), 'did you mean "loadable"?'),
        (("{static: [http://10.0.0.7:8000]}", "{static: [http://a], tls: {ca_file: /none}}"), "no such file: /none"),
        (("model: llama-3.3-70b", "model: ["), "agent.yaml:7"),
    ],
)
def test_each_mistake_is_named_where_it_stands(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    """Path, expectation, and the near miss where there is one."""
    assert change[0] in GOOD
    found = problems(tmp_path, GOOD.replace(*change))
    assert any(says in problem for problem in found), found
    assert all(str(tmp_path) in problem for problem in found)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    """Not the first only."""
    text = GOOD.replace("https://director.example.net", "ftp://x").replace("region: eu-west-1", "region: X")
    assert len(problems(tmp_path, text)) == 2


def test_a_missing_file_is_a_problem_not_a_traceback(tmp_path: Path) -> None:
    """As is a folder, or bytes that are no text."""
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigInvalid):
        load(tmp_path / "bytes.yaml")


def test_one_deployment_twice_is_refused(tmp_path: Path) -> None:
    """A report holds each model version once."""
    entry = GOOD[GOOD.index("  - model") :]
    assert any("listed twice" in problem for problem in problems(tmp_path, GOOD + entry.lstrip("\n")))
