"""vLLM under Ray Serve: vLLM's figures under Ray's prefix, and requests that wait in Serve's handles before them."""

from __future__ import annotations

from msgspec import structs

from director.agent.engines import vllm
from director.agent.exposition import Dump
from director.agent.reading import Picker, Reading

NAMES = vllm.VllmNames(("ray_vllm:", "ray_vllm_"))
QUEUED = ("ray_serve_deployment_queued_queries",)
WANTED = NAMES.wanted | frozenset(QUEUED)


def read(dump: Dump) -> list[Reading]:
    """Handles' queues name no model: they are added where the dump serves one model only."""
    readings = vllm.read_with(dump, NAMES)
    picker = Picker(dump)
    queued = picker.total("waiting", QUEUED)
    if queued is None or len(readings) != 1 or readings[0].waiting is None:
        return readings
    reading = readings[0]
    origin = f"{reading.origins['waiting']} + {picker.origins['waiting']}"
    return [
        structs.replace(
            reading, waiting=(reading.waiting or 0.0) + queued, origins=reading.origins | {"waiting": origin}
        )
    ]
