"""What is said about a policy agrees with what is checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from director.core.policy import Policy
from director.policy import json_schema
from director.policy.reference import BEGIN, renewed, tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "policy.md"


def test_the_tables_of_the_document_are_those_of_the_types() -> None:
    """`python -m director.policy.reference docs/policy.md` renews them."""
    text = DOCUMENT.read_text(encoding="utf-8")
    assert renewed(text) == text


def test_every_setting_has_a_table_row_with_its_effect() -> None:
    """No setting exists without a word on what it does."""
    rows = [row for row in tables().split("\n") if row.startswith("| `")]
    assert len(rows) > 70
    assert [row for row in rows if row.endswith("|  |")] == []


def test_a_document_without_marks_is_an_error() -> None:
    """Better than a table in the wrong place."""
    with pytest.raises(ValueError, match=BEGIN):
        renewed("# no tables here")


def definitions() -> dict[str, Any]:
    return json_schema()["$defs"]


def test_the_schema_refuses_unknown_keys_everywhere() -> None:
    """An editor underlines what the loader refuses."""
    for name, definition in definitions().items():
        if name != "Residency":
            assert definition["additionalProperties"] is False, name
    word, mapping = definitions()["Residency"]["anyOf"]
    assert word == {"const": "anywhere"}
    assert mapping["additionalProperties"] is False


def test_the_schema_knows_ranges_defaults_and_effects() -> None:
    """Bounds and descriptions come from the same types as the loader's messages."""
    ratio = definitions()["Planner"]["properties"]["home_target"]
    assert (ratio["minimum"], ratio["maximum"], ratio["default"]) == (0, 1, 0.9)
    assert ratio["description"]
    assert definitions()["Tenant"]["required"] == ["residency"]
    assert set(definitions()["Policy"]["properties"]) == {field.name for field in msgspec.structs.fields(Policy)}


def test_the_schema_is_json() -> None:
    """It can be printed, and all its references resolve."""
    text = json.dumps(json_schema())
    for part in text.split('"$ref": "')[1:]:
        assert part.split('"')[0].removeprefix("#/$defs/") in definitions()
