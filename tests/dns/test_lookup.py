"""`director dns lookup`: the answer, and why; the explanation is of the very question that the responder answered."""

from __future__ import annotations

import json
from ipaddress import ip_network
from typing import Any

import dns.edns
import dns.message
import dns.name
import dns.rdatatype
import msgspec
import pytest

from director.commands import dns_why
from director.core.decide import decide
from director.core.decision import Decision
from director.core.policy import Addresses
from director.core.request import Request
from director.dns.answer import Answerer
from tests.dns.fakes import APEX, MODEL, NOW_MS, FakeView, policy
from tests.serve.cli import Stub, run
from tests.serve.cli import server as server

CHAT = f"chat.eu.{APEX}"
POLICY = f"""
jurisdictions: [EU, US]
regions:
  eu-west-1:
    jurisdictions: [EU]
    location: {{lat: 53.3, lon: -6.3}}
    endpoint: https://eu-west-1.infer.example.net
    addresses: {{A: [192.0.2.10], AAAA: ["2001:DB8::10"]}}
  eu-central-1:
    jurisdictions: [EU]
    location: {{lat: 50.1, lon: 8.7}}
    endpoint: https://eu-central-1.infer.example.net
    addresses: {{A: [192.0.2.20], AAAA: ["2001:db8::20"]}}
  quiet:
    jurisdictions: [EU]
    location: {{lat: 50.1, lon: 8.7}}
    endpoint: https://quiet.infer.example.net
models: {{{MODEL}: {{objective: interactive}}}}
tenants:
  acme: {{residency: {{allow: [EU]}}}}
objectives:
  interactive: {{spread_ms: 8}}
client_zones:
  europe: {{location: {{lat: 50.1, lon: 8.7}}, networks: [203.0.113.0/24]}}
dns:
  {APEX}:
    nameservers: {{ns1.{APEX}: [192.0.2.53]}}
    names:
      chat.eu: {{tenant: acme, model: {MODEL}}}
      "*.wild.eu": {{tenant: acme, model: {MODEL}, version: "2026*"}}
"""
EXPLANATION: dict[str, Any] = {
    "region": "eu-west-1",
    "reason": "home",
    "candidates": [{"region": "eu-west-1", "version": "1", "share": 1.0, "rejection": None, "nearness": None}],
}


def lookup(port: str, *arguments: str, server: Stub | None = None) -> tuple[int, str, str]:
    env = {} if server is None else {"DIRECTOR_URL": server.url, "DIRECTOR_TOKEN": "t"}
    told = run("dns", "lookup", *arguments, "--server", f"127.0.0.1:{port}", **env)
    return told.exit_code, told.stdout, told.stderr


@pytest.fixture
def director(server: Stub) -> Stub:
    """A director's stand-in that holds a policy and explains everything alike."""
    server.body = {"files": {"policy.yaml": POLICY}, **EXPLANATION}
    return server


def test_the_answer_comes_with_its_explanation(port: str, director: Stub) -> None:
    """The name's tenant and model; the network and its zone as the responder keys them; regions DNS cannot name."""
    code, out, err = lookup(port, CHAT, "--subnet", "203.0.113.77/32", server=director)
    assert (code, err) == (0, "")
    assert out.startswith("NOERROR\n")
    assert "192.0.2." in out
    assert "; tenant acme, model llama-3.3-70b, client_zone europe, session 203.0.113.0/24, exclude quiet" in out
    assert "eu-west-1: home" in out
    (_, path, token, _), (method, explain, _, asked) = director.asked
    assert (path, token) == ("/policy", "Bearer t")
    assert (method, explain) == ("POST", "/explain")
    assert asked == {
        "tenant": "acme",
        "model": MODEL,
        "client_zone": "europe",
        "session": "203.0.113.0/24",
        "exclude": ["quiet"],
    }


@pytest.mark.parametrize(
    ("subnet", "session", "zone"),
    [
        (None, "127.0.0.0/24", "default"),
        ("0.0.0.0/0", "127.0.0.0/24", "default"),
        ("10.1.0.0/16", "10.1.0.0/16", "default"),
        ("203.0.113.0/24", "203.0.113.0/24", "europe"),
        ("2001:db8:1:2:3::/80", "2001:db8:1::/56", "default"),
    ],
)
def test_the_client_is_who_the_responder_takes_it_for(
    port: str, director: Stub, subnet: str | None, session: str, zone: str
) -> None:
    """Without a subnet, or with /0, the machine that asks."""
    lookup(port, CHAT, *(("--subnet", subnet) if subnet else ()), server=director)
    assert director.asked[1][3]["session"] == session
    assert director.asked[1][3]["client_zone"] == zone


def test_json_holds_both(port: str, director: Stub) -> None:
    """Records, route and explanation in one object; a wildcard's child takes the wildcard's route."""
    code, out, _ = lookup(port, f"X.wild.eu.{APEX}", "--subnet", "203.0.113.0/24", "--json", server=director)
    told = json.loads(out)
    assert code == 0
    assert (told["status"], told["records"][0]["type"]) == ("NOERROR", "A")
    assert told["route"]["version"] == "2026*"
    assert told["explanation"]["region"] == "eu-west-1"
    assert told["regions"] in (["eu-west-1"], ["eu-central-1"])


def test_without_a_token_the_answer_stands_and_one_line_says_what_is_missing(port: str) -> None:
    """The responder alone can be asked by anybody."""
    code, out, err = lookup(port, CHAT)
    assert (code, err) == (0, "")
    last = out.splitlines()[-1]
    assert "DIRECTOR_TOKEN" in last
    assert "DIRECTOR_URL" in last
    told = json.loads(lookup(port, CHAT, "--json")[1])
    assert told["records"]
    assert told["explanation"] is None
    assert "DIRECTOR_TOKEN" in told["note"]


def test_a_director_that_does_not_explain_takes_nothing_from_the_answer(port: str, server: Stub) -> None:
    """The answer, one line of error, and the answer's own exit code."""
    server.status, server.body = 403, {"detail": "the token has not the scope read"}
    code, out, err = lookup(port, CHAT, "--json", server=server)
    assert code == 0
    assert json.loads(out)["records"]
    assert len(err.splitlines()) == 1
    assert "scope read" in err
    assert lookup(port, "nobody." + APEX, server=server)[0] == 1


@pytest.mark.parametrize(
    ("name", "rdtype", "words"),
    [
        ("chat.example.org", "A", "is in no zone of the policy: infer.example.com"),
        (f"nobody.{APEX}", "A", f"does not exist in {APEX}"),
        (f"eu.{APEX}", "A", "stands for no route"),
        (f"ns1.{APEX}", "A", "stands for no route"),
        (CHAT, "MX", "the same whatever its region"),
    ],
)
def test_a_name_that_stands_for_no_route_says_so(port: str, director: Stub, name: str, rdtype: str, words: str) -> None:
    """And nothing is asked of `/explain`."""
    _, out, _ = lookup(port, name, "--type", rdtype, server=director)
    assert words in out.splitlines()[-1]
    assert [asked[1] for asked in director.asked] == ["/policy"]


@pytest.mark.parametrize(
    ("files", "words"), [({}, "no policy"), ({"a.yaml": "regoins: {}"}, "a.yaml:1: jurisdictions")]
)
def test_a_policy_that_cannot_be_read_is_one_line(port: str, server: Stub, files: dict[str, str], words: str) -> None:
    """There is none, or it is another version's."""
    server.body = {"files": files}
    code, out, _ = lookup(port, CHAT, server=server)
    assert code == 0
    assert words in out.splitlines()[-1]


def test_an_answer_of_another_plan_is_pointed_out(port: str, director: Stub) -> None:
    """The plan may have changed in between, or the responder may belong to another director."""
    director.body["region"] = "quiet"
    assert "another plan than the one explained" in lookup(port, CHAT, server=director)[1].splitlines()[-1]


@pytest.mark.parametrize("nameless", [None, "eu-central-1"])
def test_what_is_explained_is_what_was_answered(nameless: str | None) -> None:
    """For many networks and every name with a route: deciding what the command asks gives the region of the answer.

    Also where a region has no address, which DNS passes over.
    """
    regions = policy().regions
    if nameless is not None:
        regions = {**regions, nameless: msgspec.structs.replace(regions[nameless], addresses=Addresses())}
    of = policy(regions=regions)
    view = FakeView(of)
    answerer = Answerer(view)
    assert view.table is not None
    for relative in ("chat.eu", "chat", "us", "x.wild.eu", "@"):
        name = dns.name.from_text(APEX if relative == "@" else f"{relative}.{APEX}")
        wire = name.to_wire()
        assert wire is not None
        node = dns_why._node(of, wire.lower(), dns.rdatatype.A)
        assert not isinstance(node, str)
        for i in range(60):
            network = f"203.0.{100 + i}.0/24" if i % 2 else f"2001:db8:1:{i:x}00::/56"
            fields = dns_why.question(of, node, dns_why.network_of(of, ip_network(network)))
            request = Request(
                fields["tenant"],
                fields["model"],
                fields["client_zone"],
                fields["session"],
                exclude=fields.get("exclude", ()),
            )
            decision = decide(view.table, request, NOW_MS)
            assert isinstance(decision, Decision)
            query = dns.message.make_query(name, "A", use_edns=0, options=[dns.edns.ECSOption(*_split(network))])
            answer = answerer.answer(query.to_wire(), bytes(4), "udp")
            assert answer is not None
            message = dns.message.from_wire(answer.wire)
            told = [item.to_text() for rrset in message.answer for item in rrset]
            assert dns_why.named_regions(of, told) == (decision.target.region,)


def _split(network: str) -> tuple[str, int]:
    address, _, bits = network.partition("/")
    return address, int(bits)
