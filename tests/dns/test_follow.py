"""How fast clients follow a failure: what docs/dns.md says is what `explain` says."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import structs

from director.core.explain import dns_follows_within_s
from director.core.policy import DnsName, Probe
from tests.dns.fakes import APEX, MODEL, policy, zone

DOCUMENT = Path(__file__).parents[2] / "docs" / "dns.md"


def follows_within_s(interval_s: float, timeout_s: float, tolerated: int, ttl_s: int) -> float | None:
    base = policy(dns={APEX: zone(names={"us": DnsName("yank", MODEL, ttl_s=ttl_s)})})
    probe = Probe("https://x", interval_s=interval_s, timeout_s=timeout_s, tolerated_failures=tolerated)
    region = structs.replace(base.regions["us-east-1"], probe=probe)
    probed = structs.replace(base, regions={**base.regions, "us-east-1": region})
    return dns_follows_within_s(probed, "us-east-1", MODEL)


def test_the_documents_examples_are_right() -> None:
    """N5: every row of the table gives what `explain` gives, (10 + 5) × 4 + 30 = 90 s among them."""
    found = re.findall(
        r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| \*\*(\d+)\*\* \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    rows = [tuple(int(cell) for cell in row) for row in found]
    assert (10, 5, 3, 30, 90) in rows
    assert len(rows) >= 3
    for interval_s, timeout_s, tolerated, ttl_s, total_s in rows:
        assert follows_within_s(interval_s, timeout_s, tolerated, ttl_s) == total_s
