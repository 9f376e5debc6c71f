"""What cannot be run here, checked as far as it can be: NGINX Plus without its own directives, Envoy's questions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from ruamel.yaml import YAML

from director.serve import running
from tests.e2e.tree import MODEL, command
from tests.l7.nginx import Nginx
from tests.l7.world import World, ask
from tests.serve.processes import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.system]

ENVOY = Path(__file__).parents[2] / "deploy" / "envoy" / "envoy.yaml"


def without_plus(text: str) -> str:
    """`plus.conf` for open source: variables of keyval zones become plain ones, the API and the cluster go."""
    text = text[: text.index("# Plus: zones are synchronised")]
    text = re.sub(r"^\s*keyval_zone .*;\n", "", text, flags=re.M)
    text, count = re.subn(r'^\s*keyval (?:"[^"]*"|\S+)\s+(\$\w+)\s+zone=\w+;\n', r"    js_var \1;\n", text, flags=re.M)
    assert count == 2
    text = re.sub(r"    # Plus: the API.*?\n    }\n", "", text, flags=re.S)
    text = text.replace("load_module modules/", "load_module /usr/lib/nginx/modules/")
    assert not re.search(r"^\s*(keyval|api|zone_sync)", text, re.M)
    return text


def test_the_open_part_of_the_plus_configuration_works(calm_world: World, tmp_path: Path) -> None:
    """Without Plus's lines it is a configuration that NGINX takes, and whose script answers requests."""
    proxy = Nginx(tmp_path / "plus", "plus", calm_world, "l7", None)
    path = proxy.folder / "plus.conf"
    path.write_text(without_plus(path.read_text()))
    proxy.start()
    try:
        answer = wait_for(lambda: _good(proxy), why="it answers")
        assert answer.headers["X-Gateway"] in ("eu-central-1", "eu-west-1")
        with calm_world.front.being("refuse"):
            # Without a keyval zone nothing was kept and nothing is listed: refused, never a bare 500.
            assert ask(proxy.port).status_code == 503
    finally:
        proxy.stop()


def _good(proxy: Nginx) -> httpx.Response | None:
    answer = ask(proxy.port)
    return answer if answer.status_code == 200 else None


def envoy() -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(ENVOY.read_text())
    return found


def filters() -> dict[str, Any]:
    listener = envoy()["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return {one["name"].rpartition(".")[2]: one["typed_config"] for one in manager["http_filters"]} | {
        "manager": manager
    }


def test_envoys_routes_lead_to_clusters_that_are_there() -> None:
    """Each route's cluster and each part of an aggregate is declared, and the last route is a refusal."""
    clusters = {one["name"]: one for one in envoy()["static_resources"]["clusters"]}
    routes = filters()["manager"]["route_config"]["virtual_hosts"][0]["routes"]
    used = {route["route"]["cluster"] for route in routes if "route" in route}
    for one in clusters.values():
        used |= set(one.get("cluster_type", {}).get("typed_config", {}).get("clusters", ()))
    assert used | {filters()["ext_authz"]["http_service"]["server_uri"]["cluster"]} == set(clusters)
    assert routes[-1] == {
        "match": {"prefix": "/"},
        "direct_response": {"status": 503, "body": {"inline_string": '{"status":503,"title":"unreachable"}'}},
    }


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_the_director_answers_what_envoy_would_ask(calm_world: World, method: str) -> None:
    """Any method, the client's path appended, headers as configured: 200 with the headers that Envoy is told to use."""
    authz = filters()["ext_authz"]
    service = authz["http_service"]
    found = running.read(calm_world.tree.data)
    assert found is not None
    token = command(
        *("token", "create", f"envoy-{method}", "--scope", "decide", "--trusted-headers"),
        env={"DIRECTOR_DATABASE_URL": found.database_url},
    )
    added = {one["key"]: one["value"] for one in service["authorization_request"]["headers_to_add"]}
    added["authorization"] = added["authorization"].replace("REPLACE-WITH-A-TRUSTED-TOKEN", token)
    sent = {
        "x-director-tenant": "acme",
        "x-director-model": MODEL,
        "x-director-client-zone": "europe",
        "x-director-session": "s1",
    }
    assert set(sent) <= {one["exact"] for one in authz["allowed_headers"]["patterns"]}
    url = f"{calm_world.url}{service['path_prefix']}/v1/chat/completions?tenant=globex"

    def asked(**more: str) -> httpx.Response | None:
        answer = httpx.request(method, url, headers={**sent, **added, **more})
        return answer if answer.status_code not in (401,) else None

    answer = wait_for(asked, why="the token is known")
    assert answer.status_code == 200
    assert answer.headers["x-director-region"] in ("eu-central-1", "eu-west-1")
    wanted = service["authorization_response"]
    for name in ("allowed_upstream_headers", "allowed_client_headers_on_success", "dynamic_metadata_from_headers"):
        assert all(one["exact"] in answer.headers for one in wanted[name]["patterns"])
    routed = {
        header["string_match"]["exact"]
        for route in filters()["manager"]["route_config"]["virtual_hosts"][0]["routes"]
        for header in route["match"].get("headers", ())
        if header["name"] == "x-director-region"
    }
    assert answer.headers["x-director-region"] in routed
