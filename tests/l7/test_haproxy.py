"""HAProxy with the shipped Lua: the same promises as from NGINX."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from tests.e2e.tree import MODEL
from tests.l7.haproxy import Haproxy, haproxy
from tests.l7.reporter import reporter
from tests.l7.world import World, ask, quickest_s
from tests.serve.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.system]

EU = {"eu-west-1", "eu-central-1"}
US = {"us-east-1", "us-west-2"}


@pytest.fixture(scope="module")
def standing(standing_world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Haproxy]:
    standing_world.calm()
    folder = tmp_path_factory.mktemp("haproxy")
    with (
        reporter(folder, standing_world, "edge-haproxy") as port,
        haproxy(folder / "here", standing_world, port) as running,
    ):
        yield running


@pytest.fixture
def proxy(standing: Haproxy, calm_world: World) -> Haproxy:
    def well() -> bool:
        answers = [ask(standing.port, headers={"X-Session-Id": f"well-{n}"}) for n in range(20)]
        return {answer.headers.get("X-Gateway") for answer in answers} == EU

    wait_for(well, why="both regions are entered")
    return standing


def test_the_callers_key_alone_chooses(proxy: Haproxy, calm_world: World) -> None:
    """Tenant by key; no key is 401; a model nobody served is 404; H4: nothing of the client's reaches the director."""
    calm_world.front.forget()
    forged = {
        "X-Director-Tenant": "globex",
        "X-Director-Residency": "US",
        "X-Session-Id": 'x","tenant":"globex',
        "X-Model": f'{MODEL}","tenant":"globex',
        "Cookie": 'director_affinity=a"globex; director_session=b&tenant=globex',
    }
    answer = wait_for(lambda: _asked(proxy, calm_world, forged), why="the director is asked")
    assert answer.headers["X-Gateway"] in EU
    assert answer.text.endswith("data: [DONE]\n\n")
    said = bytes(calm_world.front.sent)
    for word in (b"globex", b"demo-key", b"X-Director", b'"residency"'):
        assert word not in said
    seen = calm_world.gateways.seen(answer.headers["X-Gateway"])[-1]["headers"]
    assert (seen["x-director-tenant"], seen.get("x-director-residency")) == ("acme", None)
    assert ask(proxy.port, headers={"Authorization": "Bearer key-of-globex"}).headers["X-Gateway"] in US
    assert ask(proxy.port, headers={"Authorization": "Bearer key-of-narrowed"}).headers["X-Gateway"] == "eu-central-1"
    assert ask(proxy.port, headers={"Authorization": None}).status_code == 401
    assert ask(proxy.port, path="/m/llama-9/v1/chat/completions").status_code == 404


def _asked(proxy: Haproxy, world: World, headers: dict[str, str]) -> httpx.Response | None:
    answer = ask(proxy.port, headers=headers)
    return answer if world.front.asked else None


@pytest.mark.parametrize("mode", ["refuse", "hang"])
def test_a_silent_director_means_a_permitted_fallback(proxy: Haproxy, calm_world: World, mode: str) -> None:
    """H1: within a second every caller enters a region that its policy allows, or, narrowed beyond it, is refused."""
    callers = {"demo-key-of-acme": EU, "key-of-globex": US, "key-of-behoerde": {"eu-central-1"}}
    model = {"X-Model": "qwen3-32b"}  # no answer is kept for it

    def silence() -> float:
        took_s = []
        with calm_world.front.being(mode):  # type: ignore[arg-type]
            for number in range(3):
                for key, permitted in callers.items():
                    headers = {"Authorization": f"Bearer {key}", "X-Session-Id": f"{mode}-{number}"}
                    began = time.monotonic()
                    answer = ask(proxy.port, headers=headers)
                    took_s.append(time.monotonic() - began)
                    assert (answer.status_code, answer.headers["X-Gateway"] in permitted) == (200, True)
            refused = ask(proxy.port, headers={"Authorization": "Bearer key-of-narrowed", **model})
            assert (refused.status_code, "Retry-After" in refused.headers) == (503, True)
        return max(took_s)

    assert quickest_s(silence) < 1.0


def test_sessions_spread_by_shares_and_stay(proxy: Haproxy, calm_world: World) -> None:
    """One answer for many: sessions split by its shares, each stays where it is; a cookie's token holds it."""

    def spread() -> tuple[dict[str, float], dict[str, str], dict[str, str]] | None:
        """Where the sessions went, twice, when the plan did not change meanwhile."""
        told = calm_world.shares()
        calm_world.front.forget()
        began = time.monotonic()
        first, again = ({f"s{n}": _region(proxy, f"s{n}") for n in range(250)} for _ in range(2))
        assert calm_world.front.asked <= (time.monotonic() - began) / 2 + 2
        return (told, first, again) if calm_world.shares() == told else None

    told, first, again = wait_for(spread, within_s=120, why="the shares stand still")
    counts = Counter(first.values())
    for name, share in told.items():
        assert counts[name] / 250 == pytest.approx(share, abs=0.12), (told, counts)
    assert sum(first[session] != again[session] for session in first) <= 10
    with httpx.Client(headers={"Authorization": "Bearer demo-key-of-acme"}) as client:
        url = f"http://127.0.0.1:{proxy.port}/v1/chat/completions"
        wait_for(lambda: _cookie(client, url), why="an answer carries a token")
        wait_for(
            lambda: client.post(url, json={"model": MODEL}).headers["X-Director-Reason"] == "affinity",
            why="the token holds it",
        )


def _region(proxy: Haproxy, session: str) -> str:
    found: str = ask(proxy.port, headers={"X-Session-Id": session}, body={"max_tokens": 1}).headers["X-Gateway"]
    return found


def _cookie(client: httpx.Client, url: str) -> bool:
    client.post(url, json={"model": MODEL})
    return "director_affinity" in client.cookies


def test_a_dead_region_is_left_within_the_same_request(proxy: Haproxy, calm_world: World) -> None:
    """The second of the pair takes what the first refuses, and the refusal is counted as an outcome."""
    before = calm_world.counted("connect")
    calm_world.gateways.kill("eu-central-1")
    answers = [ask(proxy.port, headers={"X-Session-Id": f"dead-{n}"}) for n in range(20)]
    assert {(answer.status_code, answer.headers["X-Gateway"]) for answer in answers} == {(200, "eu-west-1")}
    assert {answer.headers["X-Director-Region"] for answer in answers} == {"eu-west-1"}
    wait_for(lambda: calm_world.counted("connect") > before, why="the refused connection is an outcome")


def test_a_stream_that_a_region_ends_is_its_failure(proxy: Haproxy, calm_world: World) -> None:
    """A gateway killed in mid-stream is counted as a server's failure, once."""
    before = calm_world.counted("server")
    with pytest.raises(httpx.HTTPError):
        _stream_and_kill(proxy, calm_world)
    wait_for(lambda: calm_world.counted("server") == before + 1, why="it is counted")


def _stream_and_kill(proxy: Haproxy, world: World) -> None:
    url = f"http://127.0.0.1:{proxy.port}/v1/chat/completions"
    headers = {"Authorization": "Bearer key-of-behoerde"}
    body = {"model": MODEL, "max_tokens": 50, "gap_ms": 50}
    with httpx.stream("POST", url, json=body, headers=headers) as answer:
        chunks = answer.iter_bytes()
        next(chunks)
        world.gateways.kill("eu-central-1")
        list(chunks)
