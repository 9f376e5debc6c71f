"""The probes of RFC 8906, and what people type: dig, kdig and delv against a real port."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.dns.fakes import APEX, EPOCH

pytestmark = pytest.mark.system
SOA = f"ns1.{APEX}. dns\\.admin.example.com. {EPOCH} 14400 3600 1209600 10"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout


def dig(port: str, *arguments: str) -> str:
    return run("dig", "@127.0.0.1", "-p", port, "+tries=1", "+time=3", *arguments)


def status(output: str) -> str:
    found = re.search(r"status: (\w+)", output)
    assert found, output
    return found[1]


def flags(output: str) -> set[str]:
    found = re.search(r"^;; flags: ([a-z ]*);", output, re.MULTILINE)
    assert found, output
    return set(found[1].split())


PLAIN = ["+noedns", "+noad", "+norec"]
EDNS = ["+nocookie", "+noad", "+norec"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # RFC 8906, section 8.1: without EDNS.
        ([*PLAIN, "SOA"], "NOERROR soa aa -rd -ad -opt"),
        ([*PLAIN, "TYPE1000"], "NOERROR -soa aa -rd -ad -opt"),
        ([*PLAIN, "+cd", "SOA"], "NOERROR soa aa -rd -ad -opt"),
        (["+noedns", "+norec", "+ad", "SOA"], "NOERROR soa aa -rd -ad -opt"),
        ([*PLAIN, "+zflag", "SOA"], "NOERROR soa aa -rd -ad -mbz -opt"),
        ([*PLAIN, "+opcode=15", "+header-only"], "NOTIMP -soa -aa -rd -ad -opt"),
        (["+noedns", "+noad", "+rec", "SOA"], "NOERROR soa aa rd -ra -ad -opt"),
        ([*PLAIN, "+tcp", "SOA"], "NOERROR soa aa -rd -ad -opt"),
        # Section 8.2: with EDNS.
        ([*EDNS, "+edns=0", "SOA"], "NOERROR soa aa -rd -ad opt v0"),
        ([*EDNS, "+edns=1", "+noednsneg", "SOA"], "BADVERS -soa -aa -rd -ad opt v0"),
        ([*EDNS, "+edns=0", "+ednsopt=100", "SOA"], "NOERROR soa aa -rd -ad opt v0 -option"),
        ([*EDNS, "+edns=0", "+ednsflags=0x40", "SOA"], "NOERROR soa aa -rd -ad opt v0 -ednsmbz"),
        ([*EDNS, "+edns=1", "+noednsneg", "+ednsflags=0x40", "SOA"], "BADVERS -soa -aa opt v0 -ednsmbz"),
        ([*EDNS, "+edns=1", "+noednsneg", "+ednsopt=100", "SOA"], "BADVERS -soa -aa opt v0 -option"),
        ([*EDNS, "+edns=1", "+noednsneg", "+dnssec", "SOA"], "BADVERS -soa -aa opt v0 do"),
        ([*EDNS, "+edns=0", "+ignore", "+bufsize=512", "+dnssec", "DNSKEY"], "NOERROR aa opt v0 do"),
        ([*EDNS, "+edns=0", "+dnssec", "SOA"], "NOERROR soa aa opt v0 do"),
        ([*EDNS, "+edns=0", "+tcp", "SOA"], "NOERROR soa aa opt v0"),
        (
            ["+noad", "+norec", "+edns=0", "+cookie", "+nsid", "+expire", "+subnet=0.0.0.0/0", "SOA"],
            "NOERROR soa aa opt v0 cookie nsid -expire",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_probes_of_rfc_8906(port: str, arguments: list[str], expected: str) -> None:
    """Each gets the answer that the operator guidelines expect."""
    command = arguments if "+header-only" in arguments else [APEX, *arguments]
    output = dig(port, *command)
    want_status, *wants = expected.split()
    assert status(output) == want_status
    version = re.search(r"^; EDNS: version: (\d+), flags:([a-z ]*);", output, re.MULTILINE)
    facts = {
        "soa": re.search(rf"^{APEX}\.\s+\d+\s+IN\s+SOA", output.partition("AUTHORITY SECTION")[0], re.MULTILINE),
        "opt": version,
        "v0": version and version[1] == "0",
        "do": version and "do" in version[2],
        "mbz": "MBZ" in output,
        "ednsmbz": re.search(r"EDNS:.*MBZ", output),
        "option": "OPT=100" in output,
        "cookie": "(good)" in output,
        "nsid": "NSID" in output,
        "expire": "EXPIRE" in output,
    } | {flag: flag in flags(output) for flag in ("aa", "rd", "ra", "ad")}
    for want in wants:
        assert bool(facts[want.lstrip("-")]) is not want.startswith("-"), (want, output)


def test_dig_says_what_people_want_to_read(port: str) -> None:
    """Short answers over both transports, with a client subnet, and nothing malformed to warn about."""
    for transport in ("+notcp", "+tcp"):
        output = dig(port, f"chat.eu.{APEX}", "+short", "+subnet=203.0.113.0/24", transport)
        assert output.strip() in ("192.0.2.10", "192.0.2.20")
    full = dig(port, f"chat.eu.{APEX}", "A", "+subnet=203.0.113.0/24")
    assert "CLIENT-SUBNET: 203.0.113.0/24/24" in full
    assert "WARNING: Message parser" not in full
    assert dig(port, APEX, "SOA", "+short").strip() == SOA


def test_dig_is_refused_a_transfer(port: str) -> None:
    """With and without a key."""
    assert "Transfer failed" in dig(port, APEX, "AXFR")
    signed = dig(port, APEX, "AXFR", "-y", "hmac-sha256:key:c2VjcmV0c2VjcmV0")
    assert "BADKEY" in signed or "Transfer failed" in signed


def test_kdig_reads_every_type(port: str) -> None:
    """Another implementation parses the same answers."""
    for rdtype, expected in (
        ("HTTPS", r"eu-(west|central)-1\.infer\.example\.net\."),
        ("CAA", r'0 issue "ca\.example\.net"'),
        ("TXT", r'"region=eu-(west|central)-1"'),
        ("AAAA", r"2001:db8::(10|20)"),
    ):
        output = run("kdig", "@127.0.0.1", "-p", port, f"chat.eu.{APEX}", rdtype, "+edns", "+nsid")
        assert re.search(expected, output), output
        assert "replica-1" in output
        assert "WARNING" not in output.replace("WARNING: response timeout", "")


def test_delv_resolves_unsigned(port: str) -> None:
    """BIND's own resolver library takes the answer."""
    output = run("delv", "@127.0.0.1", "-p", port, "+noroot", "-i", f"us.{APEX}", "A")
    assert "198.51.100.30" in output
