"""How fast clients follow a failure."""

from __future__ import annotations

import re
from pathlib import Path

from director.core.follow import dns_follow_s_max
from director.core.policy import Probe

DOCUMENT = Path(__file__).parents[2] / "docs" / "dns.md"


def test_the_worst_case_until_resolvers_follow() -> None:
    """N5: interval 10 s, timeout 5 s, 3 tolerated failures, TTL 30 s: (10 + 5) × 4 + 30 = 90 s."""
    assert dns_follow_s_max(Probe("https://x", interval_s=10, timeout_s=5, tolerated_failures=3), 30) == 90


def test_the_documents_examples_are_right() -> None:
    """Every row of the table in docs/dns.md gives what the formula gives."""
    rows = re.findall(
        r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| \*\*(\d+)\*\* \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(rows) >= 3
    for interval_s, timeout_s, tolerated, ttl_s, total_s in rows:
        probe = Probe("https://x", float(interval_s), float(timeout_s), int(tolerated))
        assert dns_follow_s_max(probe, float(ttl_s)) == float(total_s)
