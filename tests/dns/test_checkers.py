"""Checkers of zones, as far as they run without a network: zonemaster and dnsviz find nothing wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.dns.fakes import APEX

ADDRESS = "127.0.0.54"
"""These tools ask port 53 and nothing else: an address of our own, which only root may bind."""
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="port 53 needs root, on Linux"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A responder on port 53 that is its zone's only nameserver."""
    command = [sys.executable, "-m", "tests.dns.serving", "53", ADDRESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline().startswith("ready")
        yield f"ns1.{APEX}"
        process.stdin.close()
        assert process.wait(10) == 0


def test_zonemaster_finds_no_fault(server: str) -> None:
    """Nothing above NOTICE; the tests of the server itself all ran."""
    modules = [argument for m in ("Basic", "Nameserver", "Zone", "Consistency", "Syntax") for argument in ("--test", m)]
    command = [
        "zonemaster-cli",
        "--no-ipv6",
        "--level",
        "INFO",
        "--json",
        "--ns",
        f"{server}/{ADDRESS}",
        *modules,
        APEX,
    ]
    output = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    entries = json.loads(output)
    bad = [e for e in entries if e["level"] in ("WARNING", "ERROR", "CRITICAL")]
    assert bad == []
    tags = {e["tag"] for e in entries}
    assert tags >= {
        "NO_RECURSOR",
        "EDNS0_SUPPORT",
        "AXFR_FAILURE",
        "SAME_SOURCE_IP",
        "NO_UPWARD_REFERRAL",
        "QNAME_CASE_SENSITIVE",
        "CASE_QUERIES_RESULTS_OK",
    }


def test_dnsviz_finds_no_fault(server: str) -> None:
    """Every probe of the zone and of a name is answered; no errors and no warnings."""
    where = ["-4", "-A", "-a", APEX, "-x", f"{APEX}+:{server}={ADDRESS}"]
    names = [APEX, f"chat.eu.{APEX}"]
    probe = subprocess.run(["dnsviz", "probe", *where, *names], capture_output=True, text=True, timeout=100, check=True)
    grok = subprocess.run(
        ["dnsviz", "grok", "-l", "warning"], input=probe.stdout, capture_output=True, text=True, timeout=100, check=True
    )
    found = json.loads(grok.stdout or "{}")
    assert '"errors"' not in grok.stdout
    assert '"warnings"' not in grok.stdout
    assert json.loads(probe.stdout)[f"{APEX}."]
    assert isinstance(found, dict)
