"""dnsdist in front, configured as docs/dns.md says: the client's network decides, and its cache keeps clients apart."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dns.fakes import APEX
from tests.dns.test_dig import run
from tests.dns.test_resolver import free_port

pytestmark = pytest.mark.system

CONFIGURATION = """
setLocal("127.0.0.1:{listen}")
setSecurityPollSuffix("")
newServer{{address="127.0.0.1:{port}", useClientSubnet=true, checkName="{apex}.", checkType="SOA"}}
getPool(""):setCache(newPacketCache(10000, {{parseECS=true, cookieHashing=true}}))
"""


@pytest.fixture(scope="module")
def front(port: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("dnsdist")
    listen = str(free_port())
    file = folder / "dnsdist.conf"
    file.write_text(CONFIGURATION.format(listen=listen, port=port, apex=APEX))
    log = (folder / "log").open("w")
    command = ["dnsdist", "-C", str(file), "--supervised", "--disable-syslog"]
    with log, subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
        deadline = time.monotonic() + 15
        while "NOERROR" not in ask(listen, "+noall", "+comments"):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
        yield listen
        process.terminate()
        process.wait(10)


def ask(listen: str, *arguments: str) -> str:
    return run("dig", "@127.0.0.1", "-p", listen, "+tries=1", "+time=1", f"chat.{APEX}", "A", *arguments)


def test_each_client_network_gets_its_own_region_through_the_cache(front: str) -> None:
    """Asked twice, so that the second comes from dnsdist's cache."""
    for _ in range(2):
        assert ask(front, "+short", "+subnet=198.51.100.0/24").strip() == "198.51.100.30"
        assert ask(front, "+short", "+subnet=203.0.113.0/24").strip() in ("192.0.2.10", "192.0.2.20")
