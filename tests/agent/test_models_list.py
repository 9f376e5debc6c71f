"""Adapters from a vLLM server's own list, where its metrics name none or too few."""

from __future__ import annotations

import json

import pytest

from director.agent.collect import Collector
from director.agent.config import Source
from director.agent.models_list import adapters_in
from director.core.report import Adapters
from director.demo.wire import Handler, Request, Response
from tests.agent.dumps import MODEL, vllm_dump
from tests.agent.servers import serving
from tests.agent.test_cases import lora
from tests.agent.test_collect import config


def a_list(*adapters: str) -> bytes:
    """As vLLM answers: the base model has no parent, an adapter has."""
    base = {"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm", "root": MODEL, "parent": None}
    others = [base | {"id": name, "root": f"/adapters/{name}", "parent": MODEL} for name in adapters]
    return json.dumps({"object": "list", "data": [base, *others]}).encode()


def server(dump: str, models: Response, asked: list[str] | None = None) -> Handler:
    async def handler(request: Request) -> Response:
        if asked is not None:
            asked.append(request.path)
        return models if request.path == "/v1/models" else Response(200, dump.encode(), "text/plain")

    return handler


async def adapters(dump: str, models: Response, engine: str | None = None) -> tuple[Adapters, str, list[str]]:
    """The adapters reported of one replica, where they came from, and the paths it was asked for."""
    asked: list[str] = []
    async with serving(server(dump, models, asked)) as url:
        collector = Collector(config(Source(static=(url,)), engine=engine))
        await collector.scrape_once()
        await collector.scrape_once()
        summary = collector.summaries()[0]
        await collector.close()
    assert summary.report.replicas.ready == 1
    return summary.report.adapters, summary.origins["adapters"], asked


async def test_where_the_metrics_name_no_adapter_the_servers_list_does() -> None:
    """Many releases have no lora_requests_info: what the server lists is loaded."""
    found, origin, asked = await adapters(vllm_dump(), Response(200, a_list("acme-v3", "beta-v1")))
    assert (found.loaded, found.loadable) == (("acme-v3", "beta-v1"), ())
    assert origin == "/v1/models"
    assert asked.count("/v1/models") == 1, "it is asked for seldom, not with each scrape"


async def test_m6_listed_and_never_seen_running_is_loadable_where_the_metrics_say_what_runs() -> None:
    """Registered is not loaded."""
    dump = vllm_dump(extra=lora(1900, "acme-v3"))
    found, origin, _ = await adapters(dump, Response(200, a_list("acme-v3", "beta-v1")))
    assert (found.loaded, found.loadable) == (("acme-v3",), ("beta-v1",))
    assert origin == "vllm:lora_requests_info, newest of 1, /v1/models"


@pytest.mark.parametrize(
    "models", [Response(404, b"{}"), Response(401, b"{}"), Response(200, b"<html>"), Response(200, b'{"data": 3}')]
)
async def test_a_server_that_does_not_tell_its_list_is_as_ready_as_before(models: Response) -> None:
    """A key may be wanted for it, or the port be another."""
    found, origin, _ = await adapters(vllm_dump(), models)
    assert (found, origin) == (Adapters(), "nobody names any")


async def test_another_engine_is_not_asked_for_a_list() -> None:
    """SGLang's list names no parents, and its metrics no adapters."""
    dump = 'sglang:num_running_reqs{model_name="m"} 1\nsglang:num_queue_reqs{model_name="m"} 0\n'
    _, _, asked = await adapters(dump, Response(200, a_list("acme-v3")))
    assert asked == ["/metrics", "/metrics"]


def test_a_text_that_is_no_list_is_none() -> None:
    """Not an empty list: what was known before stands."""
    assert adapters_in("\ufffd") is None
    assert adapters_in(a_list().decode()) == ()
