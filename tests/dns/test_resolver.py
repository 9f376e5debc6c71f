"""unbound in front: a validating resolver with query-name minimisation, 0x20 and client subnet, over our zone."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dns.fakes import APEX
from tests.dns.test_dig import run, status

pytestmark = pytest.mark.system

CONFIGURATION = """
server:
  interface: 127.0.0.1@{listen}
  port: {listen}
  username: ""
  chroot: ""
  directory: "{folder}"
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 1
  do-daemonize: no
  do-not-query-localhost: no
  module-config: "subnetcache validator iterator"
  send-client-subnet: 127.0.0.1
  client-subnet-always-forward: yes
  max-client-subnet-ipv4: 24
  trust-anchor: ". DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D"
  domain-insecure: "{apex}"
  qname-minimisation: yes
  qname-minimisation-strict: yes
  use-caps-for-id: yes
  harden-referral-path: no
  ede: yes
remote-control:
  control-enable: no
stub-zone:
  name: "{apex}"
  stub-addr: 127.0.0.1@{port}
  stub-no-cache: yes
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def resolver(port: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("unbound")
    listen = str(free_port())
    file = folder / "unbound.conf"
    file.write_text(CONFIGURATION.format(listen=listen, port=port, folder=folder, apex=APEX))
    log = (folder / "log").open("w")
    with log, subprocess.Popen(["unbound", "-d", "-c", str(file)], stdout=log, stderr=log) as process:
        deadline = time.monotonic() + 15
        while "NOERROR" not in ask(listen, APEX, "SOA"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
        yield listen
        process.terminate()
        process.wait(10)


def ask(listen: str, *arguments: str) -> str:
    return run("dig", "@127.0.0.1", "-p", listen, "+tries=1", "+time=3", *arguments)


@pytest.mark.parametrize(
    ("name", "rdtype", "expected"),
    [
        (f"us.{APEX}", "A", r"198\.51\.100\.30"),
        (f"chat.eu.{APEX}", "A", r"192\.0\.2\.[12]0"),
        (f"deep.a.b.c.{APEX}", "A", r"A\s+\d"),
        (f"x.wild.eu.{APEX}", "AAAA", r"2001:db8::[12]0"),
        (f"chat.eu.{APEX}", "HTTPS", r"ipv4hint"),
        (APEX, "NS", r"ns1\.infer"),
    ],
)
def test_names_resolve_through_a_minimising_resolver(resolver: str, name: str, rdtype: str, expected: str) -> None:
    """Empty non-terminals on the way are no dead ends, and case comes back as it was sent."""
    output = ask(resolver, name, rdtype)
    assert status(output) == "NOERROR"
    assert re.search(expected, output), output


@pytest.mark.parametrize(
    ("name", "rdtype", "expected"),
    [(f"nobody.{APEX}", "A", "NXDOMAIN"), (f"us.{APEX}", "AAAA", "NOERROR"), (f"a.b.c.{APEX}", "A", "NOERROR")],
)
def test_negative_answers_are_taken_and_carry_the_soa(resolver: str, name: str, rdtype: str, expected: str) -> None:
    """NXDOMAIN and NODATA arrive as such."""
    output = ask(resolver, name, rdtype)
    assert status(output) == expected
    assert "ANSWER: 0" in output
    assert "SOA" in output


def test_the_client_subnet_reaches_the_pick(resolver: str) -> None:
    """Two client networks behind one resolver get the region of their own zone, and the scope comes back."""
    for subnet, address in (("198.51.100.0/24", "198.51.100.30"), ("203.0.113.0/24", "192.0.2.")):
        output = ask(resolver, f"chat.{APEX}", "A", f"+subnet={subnet}")
        assert address in output
        assert f"CLIENT-SUBNET: {subnet}/24" in output
