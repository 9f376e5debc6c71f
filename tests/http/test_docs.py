"""`docs/http.md` and the code name the same things."""

from __future__ import annotations

from pathlib import Path

from director.http.decision.question import Question
from director.http.ingest.rules import DEPLOYMENT_FIELDS, REPORT_FIELDS
from director.http.openapi import OPERATIONS

TEXT = (Path(__file__).parents[2] / "docs" / "http.md").read_text()


def test_every_operation_is_written_down() -> None:
    """Each path of the API is in the page."""
    pages = {"/", "/logout"}
    missing = [
        one.path
        for one in OPERATIONS
        if one.path not in pages
        and one.path not in TEXT
        and "…" + one.path.removeprefix("/regions/{region}") not in TEXT
    ]
    assert missing == []


def test_every_field_is_written_down() -> None:
    """Each field of a question and of a report is in the page."""
    fields = (*Question.__struct_fields__, *DEPLOYMENT_FIELDS, *REPORT_FIELDS)
    assert [name for name in fields if f"`{name}`" not in TEXT] == []
