"""NGINX open source with the shipped configurations, by `auth_request` and by njs: the same behaviour from both."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.e2e.tree import MODEL
from tests.l7.nginx import Nginx, nginx
from tests.l7.world import World, ask, quickest_s
from tests.serve.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.system]

EU = {"eu-west-1", "eu-central-1"}
US = {"us-east-1", "us-west-2"}


@pytest.fixture(scope="module", params=["auth_request", "njs"])
def proxy(
    request: pytest.FixtureRequest, standing_world: World, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Nginx]:
    standing_world.calm()
    folder = tmp_path_factory.mktemp(request.param)
    with nginx(folder, request.param, standing_world, token_name=f"edge-{request.param}") as running:
        yield running


@pytest.fixture
def calm_proxy(proxy: Nginx, calm_world: World) -> Nginx:
    calm(proxy, calm_world)
    return proxy


def calm(proxy: Nginx, world: World) -> None:
    """Nothing is remembered of a silent director: it is asked again, and decisions come from it."""
    world.front.forget()
    wait_for(lambda: decided(proxy, f"calm-{time.monotonic_ns()}") and world.front.asked, why="it is asked again")


def decided(proxy: Nginx, session: str) -> bool:
    return ask(proxy.port, headers={"X-Session-Id": session}).headers.get("X-Director-Reason") in ("home", "share")


def test_a_request_enters_the_region_that_the_director_names(calm_proxy: Nginx, calm_world: World) -> None:
    """The caller's key chooses the tenant, and the answer comes from the region that the response names."""
    answer = ask(calm_proxy.port)
    assert answer.status_code == 200
    assert answer.headers["X-Gateway"] == answer.headers["X-Director-Region"]
    assert answer.headers["X-Director-Region"] in EU
    assert answer.text.endswith("data: [DONE]\n\n")
    other = ask(calm_proxy.port, headers={"Authorization": "Bearer key-of-globex"})
    assert other.headers["X-Gateway"] in US


def test_tokens_come_through_as_they_are_made(calm_proxy: Nginx) -> None:
    """Nothing is held back: the first event is there long before the last one is made."""
    body = {"model": MODEL, "max_tokens": 5, "gap_ms": 300}
    headers = {"Authorization": "Bearer demo-key-of-acme"}
    url = f"http://127.0.0.1:{calm_proxy.port}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, headers=headers) as answer:
        moments = [time.monotonic() for _ in answer.iter_bytes()]
    assert moments[-1] - moments[0] >= 0.3


def test_a_long_prompt_goes_through(calm_proxy: Nginx) -> None:
    """A body of two megabytes arrives whole, and its model is found."""
    answer = ask(calm_proxy.port, body={"prompt": "x" * 2_000_000})
    assert answer.status_code == 200


def test_the_model_may_stand_in_the_path(calm_proxy: Nginx, calm_world: World) -> None:
    """/m/MODEL/v1/… enters as /v1/…; a model that nobody ever served is 404."""
    answer = ask(calm_proxy.port, path=f"/m/{MODEL}/v1/chat/completions?beta=1", body={"model": None})
    assert answer.status_code == 200
    assert calm_world.gateways.seen(answer.headers["X-Gateway"])[-1]["path"] == "/v1/chat/completions?beta=1"
    assert ask(calm_proxy.port, path="/m/llama-9/v1/chat/completions", body={"model": None}).status_code == 404


def test_an_unknown_caller_is_401(calm_proxy: Nginx) -> None:
    """H1: no key, or one that is not known: 401, and no region is entered."""
    for key in (None, "Bearer guessed"):
        answer = ask(calm_proxy.port, headers={"Authorization": key})
        assert answer.status_code == 401
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_no_region_left_is_503(calm_proxy: Nginx, calm_world: World) -> None:
    """H1: the one region that a tenant may use is out: 503 with Retry-After, never a region it may not use."""
    calm_world.fleet.health["eu-central-1"] = "down"
    german = {"Authorization": "Bearer key-of-behoerde"}
    answer = wait_for(lambda: _status(calm_proxy, 503, german), why="the region is out")
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["title"] == "no_region"


def _status(proxy: Nginx, status: int, headers: dict[str, str]) -> httpx.Response | None:
    answer = ask(proxy.port, headers=headers)
    return answer if answer.status_code == status else None


@pytest.mark.parametrize("mode", ["refuse", "hang"])
def test_a_silent_director_means_a_permitted_fallback(calm_proxy: Nginx, calm_world: World, mode: str) -> None:
    """H1: down, or open to nobody: within a second every caller enters a region that its policy allows."""
    callers = {"demo-key-of-acme": EU, "key-of-globex": US, "key-of-behoerde": {"eu-central-1"}}

    def silence() -> float:
        calm(calm_proxy, calm_world)
        took_s = []
        with calm_world.front.being(mode):  # type: ignore[arg-type]
            for number in range(4):
                for key, permitted in callers.items():
                    headers = {"Authorization": f"Bearer {key}", "X-Session-Id": f"{mode}-{number}"}
                    began = time.monotonic()
                    answer = ask(calm_proxy.port, headers=headers)
                    took_s.append(time.monotonic() - began)
                    assert answer.status_code == 200, answer.text
                    assert answer.headers["X-Gateway"] in permitted
        return max(took_s)

    assert quickest_s(silence) < 1.0


def test_nobody_is_sent_where_it_asked_not_to_go(calm_proxy: Nginx, calm_world: World) -> None:
    """A caller narrowed beyond its tenant's rule has no fallback: while nobody can judge, it is refused."""
    narrowed = {"Authorization": "Bearer key-of-narrowed"}
    with calm_world.front.being("hang"):
        answers = [ask(calm_proxy.port, headers={**narrowed, "X-Session-Id": f"narrow-{n}"}) for n in range(3)]
        assert [answer.status_code for answer in answers] == [503] * 3
    answer = wait_for(lambda: _status(calm_proxy, 200, narrowed), why="the director is asked again")
    assert answer.headers["X-Gateway"] == "eu-central-1"


def test_fallbacks_alone_carry_a_proxy_that_starts_without_a_director(
    calm_proxy: Nginx, calm_world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing cached, nobody to ask, the nearest region dead as well: the next permitted one is entered."""
    calm_world.gateways.kill("eu-central-1")

    def start() -> float:
        folder = tmp_path_factory.mktemp("fresh")
        with nginx(folder, calm_proxy.variant, calm_world) as fresh:
            began = time.monotonic()
            answer = ask(fresh.port)
            took_s = time.monotonic() - began
            assert (answer.status_code, answer.headers["X-Gateway"]) == (200, "eu-west-1")
            assert answer.headers["X-Director-Reason"] == "fallback"
            german = ask(fresh.port, headers={"Authorization": "Bearer key-of-behoerde"})
            assert (german.status_code, german.json()["title"]) == (503, "unreachable")
            assert "Retry-After" in german.headers
        return took_s

    with calm_world.front.being("hang"):
        assert quickest_s(start) < 1.0


def test_a_clients_headers_reach_no_decision(calm_proxy: Nginx, calm_world: World) -> None:
    """H4: not one byte of the client's own `X-Director-…`, Authorization or query gets to the director."""
    calm_world.front.forget()
    forged = {
        "X-Director-Tenant": "globex",
        "X-Director-Residency": "US",
        "X-Director-Exclude": "eu-central-1,eu-west-1",
        "X-Director-Client-Ip": "198.51.100.7",
        "X-Forwarded-For": "198.51.100.8",
        "X-Session-Id": "x&tenant=globex&residency=US",
        "X-Model": f"{MODEL}&tenant=globex",
        "Cookie": "director_affinity=a&tenant=globex; director_session=b&tenant=globex",
    }
    forging = {"path": "/v1/chat/completions?tenant=globex&residency=US", "headers": forged}
    # Until the director was asked and no cached answer served.
    answer = wait_for(lambda: _asked(calm_proxy, calm_world, forging), why="the director is asked")
    assert answer.headers["X-Gateway"] in EU
    said = bytes(calm_world.front.sent)
    for word in (b"globex", b"residency=US", b"198.51.100", b"demo-key", b"X-Director"):
        assert word not in said
    gateway = calm_world.gateways.seen(answer.headers["X-Gateway"])[-1]["headers"]
    assert gateway["x-director-tenant"] == "acme"
    assert gateway.get("x-director-residency", "") == ""


def _asked(proxy: Nginx, world: World, how: dict[str, Any]) -> httpx.Response | None:
    answer = ask(proxy.port, **how)
    return answer if world.front.asked else None


def test_a_session_stays_by_its_token(calm_proxy: Nginx) -> None:
    """The affinity token travels as a cookie: a client that keeps cookies stays in its region."""
    with httpx.Client(headers={"Authorization": "Bearer demo-key-of-acme"}) as client:
        url = f"http://127.0.0.1:{calm_proxy.port}/v1/chat/completions"
        first = _with_token(client, url)
        later = [client.post(url, json={"model": MODEL}) for _ in range(5)]
    assert {answer.headers["X-Director-Region"] for answer in later} == {first}
    assert {answer.headers["X-Director-Reason"] for answer in later} == {"affinity"}


def _with_token(client: httpx.Client, url: str) -> str:
    """A new session's region; it got a token for it at once."""
    client.cookies.clear()
    answer = client.post(url, json={"model": MODEL})
    assert f".{answer.headers['X-Director-Region']}." in client.cookies["director_affinity"]
    return str(answer.headers["X-Director-Region"])


def test_every_new_session_gets_the_token_of_its_region_at_once(calm_proxy: Nginx, calm_world: World) -> None:
    """Whichever region an answer that others share named: sessions go to both, and each is pinned to its own."""
    calm_world.front.forget()
    with httpx.Client(headers={"Authorization": "Bearer demo-key-of-acme"}) as client:
        url = f"http://127.0.0.1:{calm_proxy.port}/v1/chat/completions"
        assert {_with_token(client, url) for _ in range(30)} == EU
        if calm_proxy.variant == "njs":

            def excluding() -> list[bytes]:
                _with_token(client, url)
                return [line for line in bytes(calm_world.front.sent).split(b"\r\n") if b"exclude=" in line]

            # A question that is no request of anybody's must not count as one.
            asked = wait_for(excluding, why="what was kept of a region has aged")
            assert all(b"estimated_tokens=1 " in line for line in asked)


@pytest.mark.parametrize("proxy", ["njs"], indirect=True)
def test_a_session_waits_for_no_token_while_the_director_is_silent(calm_proxy: Nginx, calm_world: World) -> None:
    """The last answer's shares serve on, and nobody asks a second question that nobody would answer."""

    def sent_elsewhere() -> str | None:
        session = f"elsewhere-{time.monotonic_ns()}"
        return session if _reason(calm_proxy, session) == "share" else None

    session = wait_for(sent_elsewhere, why="a session is sent elsewhere than the answer says")
    with calm_world.front.being("hang"):
        time.sleep(3.5)  # all that is kept has aged: NGINX counts whole seconds
        calm_world.front.forget()
        assert {_reason(calm_proxy, session) for _ in range(3)} == {"share"}
        assert calm_world.front.asked
        assert b"estimated_tokens" not in calm_world.front.sent


def _reason(proxy: Nginx, session: str) -> str:
    answer = ask(proxy.port, headers={"X-Session-Id": session})
    assert answer.status_code == 200
    return str(answer.headers["X-Director-Reason"])


def test_sessions_spread_by_the_shares_of_few_answers(calm_proxy: Nginx, calm_world: World) -> None:
    """Cached answers are no herd: sessions split as the shares say, and each stays where it is."""

    def spread() -> tuple[dict[str, float], dict[str, str], dict[str, str]] | None:
        """Where the sessions went, twice, when the plan did not change meanwhile."""
        told = calm_world.shares()
        calm_world.front.forget()
        began = time.monotonic()
        first, again = ({f"s{n}": region(calm_proxy, f"s{n}") for n in range(250)} for _ in range(2))
        # A hundred buckets at most in each two seconds.
        assert calm_world.front.asked <= 100 * ((time.monotonic() - began) / 2 + 1)
        return (told, first, again) if calm_world.shares() == told else None

    told, first, again = wait_for(spread, within_s=120, why="the shares stand still")
    assert len(told) == 2
    counts = Counter(first.values())
    for name, share in told.items():
        assert counts[name] / 250 == pytest.approx(share, abs=0.12), (told, counts)
    assert sum(first[session] != again[session] for session in first) <= 10


def region(proxy: Nginx, session: str) -> str:
    found: str = ask(proxy.port, headers={"X-Session-Id": session}, body={"max_tokens": 1}).headers["X-Gateway"]
    return found


def test_a_kept_connection_follows_a_drain(calm_proxy: Nginx, calm_world: World) -> None:
    """H2: a client that never resolves a name again is drained all the same. D12: a token holds until the deadline."""
    url = f"http://127.0.0.1:{calm_proxy.port}/v1/chat/completions"
    headers = {"Authorization": "Bearer demo-key-of-acme"}
    with httpx.Client(headers=headers) as pinned, httpx.Client(headers=headers) as plain:
        home = _with_token(pinned, url)

        def plain_region() -> str:
            plain.cookies.clear()
            return str(plain.post(url, json={"model": MODEL}).headers["X-Director-Region"])

        calm_world.operate(home, "drain", deadline_s=4)
        try:
            ends = time.monotonic() + 4
            wait_for(lambda: all(plain_region() != home for _ in range(12)), why="new sessions go elsewhere")
            if time.monotonic() < ends - 1:
                assert pinned.post(url, json={"model": MODEL}).headers["X-Director-Region"] == home
            wait_for(
                lambda: pinned.post(url, json={"model": MODEL}).headers["X-Director-Region"] != home,
                why="after the deadline the token holds nobody",
            )
        finally:
            calm_world.operate(home, "undrain")
    wait_for(lambda: home in {region(calm_proxy, f"back-{n}") for n in range(20)}, why="it is back")


def test_a_dead_region_is_left_within_the_same_request(calm_proxy: Nginx, calm_world: World) -> None:
    """A gateway that refuses connections costs nobody a failure: another is asked for, and the log names both tries."""
    calm_world.front.forget()
    calm_world.gateways.kill("eu-central-1")
    answers = [ask(calm_proxy.port, headers={"X-Session-Id": f"dead-{n}"}) for n in range(20)]
    retries = [line for line in bytes(calm_world.front.sent).split(b"\r\n") if b"estimated_tokens" not in line]
    assert any(b"exclude=eu-central-1" in line for line in retries)
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["X-Gateway"] for answer in answers} == {"eu-west-1"}
    tried = wait_for(
        lambda: [line for line in _log(calm_proxy) if '"regions":"eu-central-1;eu-west-1"' in line],
        why="both are logged",
    )
    assert '"statuses":"502 : 200"' in tried[-1]
    assert '"versions":"2026-08-14;2026-08-14"' in tried[-1]


def _log(proxy: Nginx) -> list[str]:
    return (proxy.folder / "outcomes.log").read_text().splitlines()


@pytest.mark.parametrize("status", [400, 429, 500, 503])
def test_a_regions_own_answer_is_not_replaced(calm_proxy: Nginx, calm_world: World, status: int) -> None:
    """What a gateway says is passed on as it is, Retry-After included: the client's to judge, and counted once."""
    for name in EU:
        calm_world.gateways.fault(name, status=status, retry_after="7")
    answer = ask(calm_proxy.port)
    assert answer.status_code == status
    assert answer.headers["Retry-After"] == "7"
    assert answer.json() == {"error": "a fault"}
    wait_for(lambda: f'"statuses":"{status}"' in _log(calm_proxy)[-1], why="it is logged")


def test_a_revoked_proxy_is_401(calm_proxy: Nginx, calm_world: World) -> None:
    """H1: the director does not know this proxy any more: 401, never a bare 500, and no fallback around it."""
    name = f"edge-{calm_proxy.variant}"
    calm_world.revoke(name)
    answer = wait_for(
        lambda: _status(calm_proxy, 401, {"X-Session-Id": "revoked-" + str(time.monotonic_ns())}), why="401"
    )
    assert answer.headers["Content-Type"] == "application/problem+json"
