"""`director dns lookup`: ask the responder as a resolver would, and see which region's addresses come back."""

from __future__ import annotations

import ipaddress

import click
import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.query
import dns.rcode
import msgspec

from director.commands.output import json_option

TIMEOUT_S = 3.0


@click.group("dns")
def dns_group() -> None:
    """Ask the DNS responder."""


@dns_group.command("lookup")
@click.argument("name")
@click.option("--subnet", help="Where the client is, as a resolver would say it: 203.0.113.0/24.")
@click.option("--type", "rdtype", default="A", show_default=True, help="A, AAAA, TXT, SOA, …")
@click.option("--server", default="127.0.0.1:8053", show_default=True, envvar="DIRECTOR_DNS", help="host:port.")
@click.option("--tcp", is_flag=True)
@json_option
def lookup_command(name: str, subnet: str | None, rdtype: str, server: str, tcp: bool, as_json: bool) -> None:
    """Look NAME up. Exit 1 when the answer is an error or holds no record."""
    host, port = _server(server)
    try:
        query = dns.message.make_query(name, rdtype, use_edns=0, options=[_subnet(subnet)] if subnet else [])
    except dns.exception.DNSException as error:
        raise click.UsageError(f"{name} {rdtype}: {error}") from error
    query.flags &= ~dns.flags.RD
    try:
        ask = dns.query.tcp if tcp else dns.query.udp_with_fallback
        told = ask(query, host, port=port, timeout=TIMEOUT_S)
    except (OSError, dns.exception.DNSException) as error:
        click.echo(f"director: no answer from {server}: {error}", err=True)
        raise click.exceptions.Exit(2) from error
    answer = told[0] if isinstance(told, tuple) else told
    status = dns.rcode.to_text(answer.rcode())
    rows = [
        (str(rrset.name), rrset.ttl, dns.rdatatype.to_text(rrset.rdtype), str(r))
        for rrset in answer.answer
        for r in rrset
    ]
    notes = [str(option) for option in answer.options]
    if as_json:
        records = [dict(zip(("name", "ttl_s", "type", "data"), row, strict=True)) for row in rows]
        click.echo(msgspec.json.encode({"status": status, "records": records, "options": notes}))
    else:
        click.echo(status)
        for row in rows:
            click.echo("{} {} {} {}".format(*row))
        for note in notes:
            click.echo(f"; {note}")
    if not rows:
        raise click.exceptions.Exit(1)


def _server(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    try:
        return str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        raise click.BadParameter(f"expected ADDRESS:PORT, got {server!r}", param_hint="--server") from None


def _subnet(text: str) -> dns.edns.Option:
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise click.BadParameter(f"expected a network such as 203.0.113.0/24: {error}", param_hint="--subnet") from None
    return dns.edns.ECSOption(str(network.network_address), network.prefixlen)
