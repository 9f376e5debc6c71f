"""What a policy must satisfy beyond the form of its values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.policy.samples import SAMPLE, accepted, changed, line_of, refused

CHAT = 'dns."infer.example.com".names.chat'
CHAT_EU = 'dns."infer.example.com".names."chat.eu"'
NAMES = "      chat: {tenant: open, model: chat-70b}\n"
FALLBACK = "when_none: fallback, fallback: {A: [192.0.2.10]}"

ERRORS = {
    "references": [
        ("objective: interactive", "objective: interactiv", "models.chat-70b.objective", 'did you mean "interactive"?'),
        ("default_tenant: null", "default_tenant: acne", "default_tenant", 'no tenant "acne"'),
        ("deny_regions: []", "deny_regions: [us-east-2]", "tenants.acme.deny_regions[0]", 'did you mean "us-east-1"?'),
        ("forbid: [US]", "forbid: [US, NO]", "tenants.acme.residency.forbid[1]", 'no jurisdiction "NO"'),
        ("jurisdictions: [US]\n", "jurisdictions: [us]\n", "regions.us-east-1.jurisdictions[0]", 'did you mean "US"?'),
        ("{chat-70b: 400000}", "{chat-7b: 400000}", "regions.eu-west-1.capacity_max.chat-7b", 'no model "chat-7b"'),
        ("{eu-west-1: 12,", "{eu-west-2: 12,", "rtt_ms.europe.eu-west-2", 'did you mean "eu-west-1"?'),
        (
            "  europe: {eu-west-1: 0.01",
            "  eurpe: {eu-west-1: 0.01",
            "egress_price_per_mtok.eurpe",
            'did you mean "europe"?',
        ),
        ("tenant: open, model", "tenant: opne, model", f"{CHAT}.tenant", 'did you mean "open"?'),
        ("open, model: chat-70b", "open, model: chat", f"{CHAT}.model", 'did you mean "chat-70b"?'),
    ],
    "residency": [
        ("{residency: anywhere}", "{residency: {}}", "tenants.open.residency", "says nowhere to go"),
        ("{residency: anywhere}", "{residency: {forbid: [US]}}", "tenants.open.residency", "says nowhere to go"),
        ("{residency: anywhere}", "{residency: {allow: []}}", "tenants.open.residency", "says nowhere to go"),
        (
            "{residency: anywhere}",
            "{residency: {allow: [EU], forbid: [EU]}}",
            "tenants.open.residency.forbid[0]",
            "EU is allowed and forbidden",
        ),
        (
            "{residency: anywhere}",
            "{residency: {anywhere: true, allow: [EU]}}",
            "tenants.open.residency.allow",
            "contradicts",
        ),
    ],
    "relations": [
        ("fresh_for_s: 10", "overflow_target: 0.9", "planner.overflow_target", "overflow_target < home_target"),
        ("fresh_for_s: 10", "fresh_for_s: 30", "planner.lost_after_s", "fresh_for_s < lost_after_s"),
        ("open_s: 10", "open_s: 301", "breaker.open_s", "open_s ≤ open_s_max"),
        ("/health}", "/health, interval_s: 1}", "regions.eu-west-1.probe.timeout_s", "probes would overlap"),
        ("tenant: open, model", "ttl_s: 4, tenant: open, model", f"{CHAT}.ttl_trouble_s", "ttl_trouble_s ≤ ttl_s"),
    ],
    "distances": [
        (
            "{eu-west-1: 0.01, us-east-1: 0.02}",
            "{eu-west-1: 0.01}",
            "egress_price_per_mtok.europe",
            "nothing about us-east-1",
        ),
        (
            "  europe: {eu-west-1: 12",
            "  default: {eu-west-1: 1}\n  europe: {eu-west-1: 12",
            "rtt_ms.default",
            "nothing about us-east-1",
        ),
    ],
    "networks": [
        ("203.0.113.0/24,", "203.0.113.7/24,", "client_zones.europe.networks[0]", 'did you mean "203.0.113.0/24"?'),
        ("203.0.113.0/24,", "203.0.113.0/33,", "client_zones.europe.networks[0]", "is no network"),
        (
            "203.0.113.0/24,",
            "'2001:db8:1::/48',",
            "client_zones.europe.networks[1]",
            "claimed twice; first by client_zones.europe.networks[0]",
        ),
        (
            "203.0.113.0/24,",
            "10.0.0.0/8, '::ffff:10.0.0.0/104',",
            "client_zones.europe.networks[1]",
            "10.0.0.0/8 is claimed twice",
        ),
        ("rtt_ms:\n", "  default: {networks: [10.0.0.0/8]}\nrtt_ms:\n", None, "mapping"),
        (
            "client_zones:\n",
            "client_zones:\n  default: {networks: [10.0.0.0/8]}\n",
            "client_zones.default",
            "no other zone claims",
        ),
        ("networks: [203", "countries: [de], networks: [203", "client_zones.europe.countries[0]", 'did you mean "DE"?'),
        ("geoip: null", "geoip: /nowhere/x.mmdb", "geoip", "there is no file"),
    ],
    "addresses": [
        (
            "{A: [192.0.2.30]}",
            "{A: [192.0.2.300]}",
            "regions.us-east-1.addresses.A[0]",
            "is no address; expected an IPv4 address",
        ),
        ("{A: [192.0.2.30]}", '{A: ["2001:db8::1"]}', "regions.us-east-1.addresses.A[0]", "belongs under AAAA"),
        ("{A: [192.0.2.30]}", "{AAAA: [192.0.2.30]}", "regions.us-east-1.addresses.AAAA[0]", "belongs under A"),
        ("{A: [192.0.2.30]}", "{A: [0.0.0.0]}", "regions.us-east-1.addresses.A[0]", "the address of no host"),
        ("{A: [192.0.2.30]}", "{AAAA: ['::ffff:1.2.3.4']}", "regions.us-east-1.addresses.AAAA[0]", "means nothing"),
        ("{A: [192.0.2.30]}", "{A: [192.0.2.30, 192.0.2.30]}", "regions.us-east-1.addresses.A[1]", "given twice"),
        (
            "{A: [192.0.2.30]}",
            "{A: [192.0.2.30], CNAME: x.example}",
            "regions.us-east-1.addresses.CNAME",
            "beside addresses",
        ),
        ("{A: [192.0.2.30]}", "{CNAME: x..example}", "regions.us-east-1.addresses.CNAME", "empty label"),
        (
            "https://us.example.net",
            "us.example.net",
            "regions.us-east-1.endpoint",
            'did you mean "https://us.example.net"?',
        ),
        ("https://us.example.net", "ftp://us.example.net", "regions.us-east-1.endpoint", "no such URL"),
        ("https://us.example.net", "https://us.example.net:99999", "regions.us-east-1.endpoint", "no such URL"),
        (
            "https://us.example.net",
            "https://a:b@us.example.net",
            "regions.us-east-1.endpoint",
            "every client would see it",
        ),
        ("https://us.example.net", '"https://us.example.net/,x"', "regions.us-east-1.endpoint", "no URL in a header"),
        ("https://us.example.net", '"https://us.example.net/?q"', "regions.us-east-1.endpoint", "query or fragment"),
        ("[192.0.2.53]", "[ns]", 'dns."infer.example.com".nameservers."ns1.infer.example.com"[0]', "is no address"),
    ],
    "shared addresses": [
        (
            "https://us.example.net",
            "https://eu.example.net/",
            "regions.us-east-1.endpoint",
            "acme may enter only one of the two",
        ),
        (
            "{A: [192.0.2.30]}",
            "{AAAA: ['2001:DB8:0::10']}",
            "regions.us-east-1.addresses.AAAA",
            "2001:db8::10 is also eu-west-1's",
        ),
    ],
    "dns zones": [
        ("  infer.example.com:", "  Infer.example.com.:", None, 'did you mean "infer.example.com"?'),
        ("{ns1.infer.example.com: [192.0.2.53]}", "{}", 'dns."infer.example.com".nameservers', "names no server"),
        ("{ns1.infer.example.com: [192.0.2.53]}", "{ns1.infer.example.com: []}", None, "nobody outside could find it"),
        ("{ns1.infer.example.com: [192.0.2.53]}", "{-.example.net: []}", None, 'has the label "-"'),
        (
            "    names:\n",
            "    hostmaster: a b@example.com\n    names:\n",
            'dns."infer.example.com".hostmaster',
            "no mail address",
        ),
        (
            "dns:\n",
            "dns:\n  chat.infer.example.com:\n    nameservers: {ns.example.net: []}\n    names: {}\n",
            CHAT,
            "stands in the zone chat.infer.example.com",
        ),
    ],
    "dns names": [
        ("      chat: {", "      Chat: {", None, 'did you mean "chat"?'),
        ("      chat: {", "      chat.: {", None, 'did you mean "chat"?'),
        ("      chat: {", "      a..b: {", None, "empty label"),
        ("      chat: {", '      "a.*": {', None, "wildcard that is not leftmost"),
        ("      chat: {", "      chat.infer.example.com: {", None, 'did you mean "chat"?'),
        ("      chat: {", "      bücher: {", None, 'did you mean "xn--bcher-kva"?'),
        ("      chat: {", f"      {'a' * 64}: {{", None, "a label of 64 characters"),
        ("      chat: {", f"      {'.'.join(['abcdefghi'] * 24)}: {{", None, "257 characters together with the zone"),
        ("      chat: {", "      ns1: {", None, "is a nameserver of the zone"),
        ("{tenant: open, ", "{caa: [issue x], tenant: open, ", f"{CHAT}.caa[0]", "is no CAA record"),
        ("{tenant: open, ", "{caa: ['256 issue \"x\"'], tenant: open, ", f"{CHAT}.caa[0]", "is no CAA record"),
        ("{tenant: open, ", f"{{txt: ['{'x' * 4001}'], tenant: open, ", f"{CHAT}.txt[0]", "4,001 octets"),
    ],
    "dns routes": [
        (FALLBACK, "when_none: fallback", f"{CHAT_EU}.when_none", "nothing to fall back to"),
        (
            FALLBACK,
            FALLBACK.replace(".10", ".30"),
            f"{CHAT_EU}.fallback.A[0]",
            "192.0.2.30 is us-east-1, which acme may not enter",
        ),
        (
            FALLBACK,
            "when_none: fallback, fallback: {CNAME: us.example.net}",
            f"{CHAT_EU}.fallback.CNAME",
            "us.example.net is us-east-1, which acme may not enter",
        ),
        ("deny_regions: []", "deny_regions: [eu-west-1]", f"{CHAT_EU}.fallback.A[0]", "an address of no region at all"),
    ],
}


@pytest.mark.parametrize(
    ("old", "new", "path", "words"),
    [pytest.param(*case, id=f"{rule}-{at}") for rule, cases in ERRORS.items() for at, case in enumerate(cases)],
)
def test_a_broken_rule_refuses_the_policy(old: str, new: str, path: str | None, words: str) -> None:
    """Each rule, broken in the sample at one place, gives exactly one problem, there."""
    problems = refused(changed(old, new))
    assert len(problems) == 1, "\n".join(map(str, problems))
    assert words in str(problems[0])
    assert path is None or problems[0].path == path
    assert problems[0].line > 0


WARNINGS = [
    (
        "spread_ms: 8, ms_per_price: 20",
        "spread_ms: 0",
        "objectives.interactive.spread_ms",
        "takes everything until it is full",
    ),
    ("spread_ms: 8,", "error_weight: 0,", "objectives.interactive.error_weight", "keeps its whole capacity"),
    (
        "max_rtt_ms: 250",
        "max_rtt_ms: 5",
        "objectives.interactive.max_rtt_ms",
        "excludes every region for clients in europe",
    ),
    ("fresh_for_s: 10", "fresh_for_s: 9", "planner.fresh_for_s", "less than two report intervals"),
    ("{tenant: open, ", "{ttl_s: 31, tenant: open, ", f"{CHAT}.ttl_s", "longer than lost_after_s"),
    (
        "price_per_mtok: 0.35",
        "price_per_mtok: 0.00035",
        "regions.us-east-1.price_per_mtok",
        "price of a thousand tokens",
    ),
    (
        "    price_per_mtok: 0.35\n",
        "",
        "objectives.interactive.ms_per_price",
        "us-east-1 has no price and counts as free",
    ),
    (
        "{residency: anywhere}",
        "{residency: {allow: [IE], forbid: [EU]}}",
        "tenants.open",
        "no region may serve this tenant",
    ),
    ("    jurisdictions: [US]\n", "", "regions.us-east-1", "no tenant with a residency rule ever reaches it"),
    ("networks: [203", "countries: [DE], networks: [203", "client_zones.europe.countries", "no effect without geoip"),
    ("client_zones:\n", "client_zones:\n  moon: {}\n", "client_zones.moon", "it counts as the farthest"),
    (FALLBACK, FALLBACK.replace(".10", ".99"), f"{CHAT_EU}.fallback.A[0]", "its residency cannot be checked"),
    (FALLBACK, FALLBACK.replace("when_none: fallback", "when_none: nodata"), f"{CHAT_EU}.fallback", "is never used"),
    ("    addresses: {A: [192.0.2.30]}\n", "", CHAT, "us-east-1 may serve it and has no addresses"),
]


@pytest.mark.parametrize(("old", "new", "path", "words"), WARNINGS)
def test_a_known_trap_is_a_warning(old: str, new: str, path: str, words: str) -> None:
    """What is allowed and seldom meant loads, and is said in words at its place."""
    (warning,) = accepted(changed(old, new)).warnings
    assert warning.path == path
    assert words in str(warning)
    assert warning.line > 0


def test_the_sample_has_neither_problem_nor_warning() -> None:
    """So that each case above is about the one place that it changes."""
    assert accepted(SAMPLE).warnings == ()


def test_round_trips_for_one_region_of_two_are_refused_without_coordinates() -> None:
    """Figures for some regions of a zone and no coordinates for the rest: which one was forgotten is said."""
    text = changed("{eu-west-1: 12, us-east-1: 88}", "{eu-west-1: 12}")
    assert accepted(text).warnings == ()
    text = text.replace("    location: {lat: 38.95, lon: -77.45}\n", "")
    (problem,) = refused(text)
    assert problem.path == "rtt_ms.europe"
    assert problem.line == line_of(text, "  europe: {eu-west-1: 12}")
    assert "us-east-1" in problem.message


def test_an_address_that_two_equally_permitted_regions_share_is_a_warning() -> None:
    """Where every tenant may enter both, a shared address breaks no residency; it is still seldom meant."""
    text = changed("{allow: [EU], forbid: [US]}", "{allow: [EU, US]}").replace("{A: [192.0.2.30]}", "{A: [192.0.2.10]}")
    (warning,) = accepted(text).warnings
    assert warning.message == "192.0.2.10 is also eu-west-1's"


def test_a_cname_stands_alone() -> None:
    """A region answered by CNAME forbids other records at a name that may lead to it, and the apex altogether."""
    alias = changed("{A: [192.0.2.30]}", "{CNAME: us.example.net}")
    assert accepted(alias).policy.regions["us-east-1"].addresses.CNAME == "us.example.net"
    for new, words in (("chat: {txt: [x], ", "beside a CNAME"), ('"@": {', "cannot stand at the apex")):
        (problem,) = refused(alias.replace("      chat: {", f"      {new}"))
        assert words in str(problem)


def test_wildcards_apex_and_deep_names_are_names() -> None:
    """`*` leftmost, `@`, and names with several labels load."""
    text = changed(
        NAMES,
        NAMES + "".join(NAMES.replace("chat:", f'"{name}":') for name in ("*", "*.x", "@", "a.b.c.d", "_sip._tcp")),
    )
    assert len(accepted(text).policy.dns["infer.example.com"].names) == 7


def test_networks_inside_one_another_are_fine() -> None:
    """The longest prefix wins; only the very same prefix is claimed once."""
    text = changed(
        "client_zones:\n",
        "client_zones:\n  lab: {location: {lat: 1, lon: 2}, networks: [203.0.113.128/25, 203.0.113.7]}\n",
    )
    assert accepted(text).warnings == ()


def test_an_existing_geoip_file_is_refused_in_words(tmp_path: Path) -> None:
    """Look-ups by country are not silently ignored where they cannot be done."""
    text = changed("geoip: null", f"geoip: {tmp_path}/x.mmdb")
    (tmp_path / "x.mmdb").write_bytes(b"")
    (problem,) = refused(text)
    assert "geoip needs a reader" in problem.message
