"""docs/agent.md says what is: its examples load, its table has every key, its defaults are the code's."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import msgspec
import pytest

from director.agent import config as types
from director.agent.config_file import load

DOCUMENT = (Path(__file__).parents[2] / "docs" / "agent.md").read_text(encoding="utf-8")
EXAMPLES = [dedent(text) for text in re.findall(r"^ *```yaml\n(.*?)^ *```", DOCUMENT, re.DOTALL | re.MULTILINE)]


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_loads(tmp_path: Path, example: str) -> None:
    """As it stands."""
    path = tmp_path / "agent.yaml"
    path.write_text(example, encoding="utf-8")
    assert load(path).deployments


def test_there_are_examples() -> None:
    """The one before must not pass for want of any."""
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(
    ("prefix", "struct"),
    [
        ("", types.AgentConfig),
        ("directors[]", types.DirectorEndpoint),
        ("deployments[]", types.DeploymentConfig),
        ("gateway", types.GatewayCheck),
        ("metrics", types.OwnMetrics),
    ],
)
def test_the_table_has_every_key_and_its_default(prefix: str, struct: type[msgspec.Struct]) -> None:
    """Numbers only: what is computed is said in words."""
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("| `")]
    for field in msgspec.structs.fields(struct):
        name = f"`{prefix}.{field.name}`" if prefix else f"`{field.name}`"
        found = [row for row in rows if name in row or (prefix and f"`{prefix}." in row and f"`.{field.name}`" in row)]
        assert found, f"{name} is not in docs/agent.md"
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            assert f"{field.default:g}" in found[0].split("|")[2], f"{name}: its default is {field.default:g}"


def test_every_kind_of_source_is_told() -> None:
    """And what goes with them."""
    for name in (*types.Source.KINDS, "pool", "selector", "query", "stage", "metrics_path"):
        assert f"`{name}" in DOCUMENT, name
