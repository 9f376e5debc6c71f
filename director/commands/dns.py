"""`director dns lookup`: ask the responder as a resolver would; see which region's addresses come back, and why."""

from __future__ import annotations

import ipaddress
import socket
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import click
import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import msgspec

from director.commands.ask import print_explanation
from director.commands.dns_why import Why, why
from director.commands.output import json_option

TIMEOUT_S = 3.0

Row = tuple[str, int, str, str]
"""Name, TTL, type, data."""


@click.group("dns")
def dns_group() -> None:
    """Ask the DNS responder."""


@dns_group.command("lookup")
@click.argument("name")
@click.option("--subnet", help="Where the client is, as a resolver would say it: 203.0.113.0/24. Else: this machine.")
@click.option("--type", "rdtype", default="A", show_default=True, help="A, AAAA, TXT, SOA, …")
@click.option("--server", default="127.0.0.1:8053", show_default=True, envvar="DIRECTOR_DNS", help="host:port.")
@click.option("--tcp", is_flag=True)
@json_option
def lookup_command(name: str, subnet: str | None, rdtype: str, server: str, tcp: bool, as_json: bool) -> None:
    """Look NAME up, and say why it leads there.

    The answer is the responder's; the explanation is that of `director explain` for the route that NAME stands for,
    asked of DIRECTOR_URL with DIRECTOR_TOKEN. Exit 1 when the answer is an error or holds no record.
    """
    host, port = _server(server)
    network = _network(subnet) if subnet else None
    try:
        query = dns.message.make_query(name, rdtype, use_edns=0, options=[_option(network)] if network else [])
    except dns.exception.DNSException as error:
        raise click.UsageError(f"{name} {rdtype}: {error}") from error
    query.flags &= ~dns.flags.RD
    try:
        ask = dns.query.tcp if tcp else dns.query.udp_with_fallback
        told = ask(query, host, port=port, timeout=TIMEOUT_S)
        client_network = network if network is not None and network.prefixlen else _own_network(host, port)
    except (OSError, dns.exception.DNSException) as error:
        click.echo(f"director: no answer from {server}: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    answer = told[0] if isinstance(told, tuple) else told
    rows = [
        (str(rrset.name), rrset.ttl, dns.rdatatype.to_text(rrset.rdtype), str(r))
        for rrset in answer.answer
        for r in rrset
    ]
    asked = query.question[0]
    wire = asked.name.to_wire()
    assert wire is not None
    if not as_json:
        _print_answer(answer, rows)
    reason = why(wire, asked.rdtype, client_network, [data for *_, data in rows])
    if as_json:
        click.echo(msgspec.json.encode(_as_json(answer, rows) | msgspec.to_builtins(reason)))
    else:
        _print_reason(reason)
    if not rows:
        raise click.exceptions.Exit(1)


def _as_json(answer: dns.message.Message, rows: list[Row]) -> dict[str, Any]:
    return {
        "status": dns.rcode.to_text(answer.rcode()),
        "records": [dict(zip(("name", "ttl_s", "type", "data"), row, strict=True)) for row in rows],
        "options": [str(option) for option in answer.options],
    }


def _print_answer(answer: dns.message.Message, rows: list[Row]) -> None:
    click.echo(dns.rcode.to_text(answer.rcode()))
    for row in rows:
        click.echo("{} {} {} {}".format(*row))
    for option in answer.options:
        click.echo(f"; {option}")


def _print_reason(reason: Why) -> None:
    if reason.route is not None:
        click.echo("; " + ", ".join(f"{field} {_words(value)}" for field, value in reason.route.items()))
    if reason.explanation is not None:
        print_explanation(reason.explanation)
    if reason.note is not None:
        click.echo(f"; {reason.note}")


def _words(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else " ".join(value)


def _server(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        raise click.BadParameter(f"expected ADDRESS:PORT, got {server!r}", param_hint="--server") from None


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(f"expected a network such as 203.0.113.0/24: {error}", param_hint="--subnet") from None


def _option(network: IPv4Network | IPv6Network) -> dns.edns.Option:
    return dns.edns.ECSOption(str(network.network_address), network.prefixlen)


def _own_network(host: str, port: int) -> IPv4Network | IPv6Network:
    """The address that this machine asks from, which is the client's where the query names no network."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((host, port))
        return ipaddress.ip_network(sock.getsockname()[0].partition("%")[0])
