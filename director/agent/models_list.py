"""Which adapters a vLLM server lists at `/v1/models`: the ones it was started with or told to load.

Its metrics name the adapters of requests that run or wait, and in many releases none at all. The list is asked for
seldom, and nothing depends on it: a server that wants a key for it, or has none, keeps what its metrics say.
"""

from __future__ import annotations

import httpx
import msgspec
from msgspec import Struct

from director.agent.exposition import NotUnderstood
from director.agent.fetch import NoAnswer, fetch_text, origin

PATH = "/v1/models"
EVERY_S = 30.0
"""An adapter is loaded by hand or on demand, every few minutes at most; vLLM logs a line for each question."""


class _Model(Struct, frozen=True):
    id: str
    parent: str | None = None
    """The base model of an adapter; a base model has none."""


class _Models(Struct, frozen=True):
    data: tuple[_Model, ...]


def adapters_in(text: str) -> tuple[str, ...] | None:
    """The adapters of a list; None where it is no list of models."""
    try:
        listed = msgspec.json.decode(text, type=_Models)
    except msgspec.MsgspecError:
        return None
    return tuple(sorted({model.id for model in listed.data if model.parent is not None}))


async def fetch_adapters(client: httpx.AsyncClient, metrics_url: str, timeout_s: float) -> tuple[str, ...] | None:
    """What the server of `metrics_url` lists; None where it does not say. Never raises for what the network does."""
    try:
        return adapters_in(await fetch_text(client, origin(metrics_url) + PATH, timeout_s))
    except (NoAnswer, NotUnderstood):
        return None
