"""Load on a running tree, and the process behind its database."""

from __future__ import annotations

import contextlib
import threading

import dns.exception
import dns.rcode

from tests.e2e.tree import ADDRESSES, Tree
from tests.serve.processes import alive


class Load:
    """Asks over HTTP and DNS without pause, and keeps whatever was no answer."""

    def __init__(self, asked: Tree, *, tenant: str = "open", name: str = "chat.infer.example.com") -> None:
        self._tree = asked
        self._tenant = tenant
        self._name = name
        self._stop = threading.Event()
        self.http = self.dns = self.static = 0
        self.failures: list[str] = []
        self.regions: set[str] = set()
        """Every region that any answer named."""
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._ask_http, self._ask_dns)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(10)

    def _ask_http(self) -> None:
        while not self._stop.wait(0.005):
            try:
                told = self._tree.select(tenant=self._tenant, session=f"s{self.http}", client_zone="europe")
            except OSError as error:
                self.failures.append(f"http: {error}")
                continue
            self.http += 1
            self.regions.add(str(told.body.get("region")))
            if told.status != 200:
                self.failures.append(f"http: {told.status} {told.body}")
            else:
                self.static += told.body["plan"]["static"]

    def _ask_dns(self) -> None:
        while not self._stop.wait(0.005):
            try:
                answer = self._tree.lookup(self._name, "203.0.113.0/24")
            except (OSError, dns.exception.DNSException) as error:
                self.failures.append(f"dns: {error!r}")
                continue
            self.dns += 1
            self.regions |= {
                ADDRESSES[record.address] for rrset in answer.answer for record in rrset if rrset.rdtype == 1
            }
            if answer.rcode() != dns.rcode.NOERROR or not answer.answer:
                self.failures.append(f"dns: {answer.to_text()}")


def postmaster(running_tree: Tree) -> int | None:
    """The embedded server's process id, while it runs."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pid = int((running_tree.data / "postgres/cluster/postmaster.pid").read_text().splitlines()[0])
        return pid if alive(pid) else None
    return None
