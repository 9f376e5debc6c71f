"""The demo's fleet: what each region of the example policy runs, what it exposes, and who asks from where.

Capacities are small and demand fits them, so that a peak in one part of the world overflows into the next.
"""

from __future__ import annotations

from msgspec import Struct

from director.demo.dumps import Dialect, PickerDialect
from director.demo.engine import EngineSpeed

LLAMA, QWEN = "llama-3.3-70b", "qwen3-32b"
SERVED_NAMES = {LLAMA: "meta-llama/Llama-3.3-70B-Instruct", QWEN: "Qwen/Qwen3-32B"}
ADAPTER = "acme-support-v3"

SPEEDS = {
    LLAMA: EngineSpeed(),
    QWEN: EngineSpeed(decode_alone_tokens_per_s=90.0, prefill_tokens_per_s=80_000.0),
}

CAPACITIES = {LLAMA: 6_800.0, QWEN: 10_000.0}
"""Tokens/s that one server was measured to sustain when full: where the director starts from, before it has seen."""


class Pool(Struct, frozen=True):
    """One deployment: `servers` replicas of a model version."""

    model: str
    version: str
    servers: int
    dialect: Dialect
    adapters_loadable: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.model}-{self.version}"


class RegionLayout(Struct, frozen=True):
    region: str
    pools: tuple[Pool, ...]
    picker: PickerDialect | None


REGIONS = (
    RegionLayout(
        "eu-west-1",
        (
            Pool(LLAMA, "2026-08-14", 4, "vllm", (ADAPTER,)),
            Pool(LLAMA, "2026-06-02", 1, "vllm-old"),
            Pool(QWEN, "2025-11-03", 1, "vllm"),
        ),
        "llm-d",
    ),
    RegionLayout(
        "eu-central-1",
        (Pool(LLAMA, "2026-08-14", 4, "sglang", (ADAPTER,)), Pool(QWEN, "2026-04-10", 1, "sglang")),
        "llm-d",
    ),
    RegionLayout(
        "us-east-1",
        (
            Pool(LLAMA, "2026-08-14", 5, "vllm"),
            Pool(LLAMA, "2026-06-02", 1, "vllm-old"),
            Pool(QWEN, "2026-04-10", 1, "vllm"),
        ),
        "llm-d",
    ),
    RegionLayout(
        "us-west-2",
        (Pool(LLAMA, "2026-08-14", 4, "vllm-old"), Pool(QWEN, "2026-04-10", 1, "vllm-old")),
        "inference-extension",
    ),
    RegionLayout(
        "ap-northeast-1",
        (Pool(LLAMA, "2026-08-14", 3, "sglang"), Pool(QWEN, "2026-04-10", 1, "sglang")),
        None,
    ),
)


class Audience(Struct, frozen=True):
    """Requests of one tenant for one model from one client zone. `requests_per_s` is the mean over the demo's day."""

    zone: str
    network: str
    """The first two numbers of the clients' addresses, as the example policy divides the benchmark network."""
    third_octets: tuple[int, int]
    tenant: str
    model: str
    requests_per_s: float
    adapter_share: float = 0.0
    version: str | None = None


def _zone(zone: str, network: str, third_octets: tuple[int, int], *parts: tuple[str, str, float]) -> list[Audience]:
    return [Audience(zone, network, third_octets, tenant, model, rate) for tenant, model, rate in parts]


LOW, HIGH = (0, 127), (128, 255)
AUDIENCES: tuple[Audience, ...] = (
    Audience("europe", "198.18", LOW, "acme", LLAMA, 14.0, adapter_share=0.25),
    *_zone("europe", "198.18", LOW, ("open", LLAMA, 12.0), ("open", QWEN, 2.4), ("behoerde", QWEN, 1.6)),
    Audience("europe", "198.18", LOW, "open", QWEN, 1.2, version="2025-*"),
    *_zone("us-east", "198.18", HIGH, ("globex", LLAMA, 11.0), ("open", LLAMA, 12.0), ("open", QWEN, 3.2)),
    *_zone("us-west", "198.19", LOW, ("globex", LLAMA, 5.0), ("open", LLAMA, 8.0), ("open", QWEN, 2.4)),
    *_zone("asia", "198.19", HIGH, ("open", LLAMA, 13.0), ("open", QWEN, 3.2), ("open-batch", QWEN, 1.6)),
)

DAY_S = 240.0
"""The demo's day: each part of the world has its peak once in it."""
PEAK_RATIO = 0.6
PEAK_AT = {"europe": 0.25, "us-east": 0.50, "us-west": 0.62, "asia": 0.95}
"""When in the day a zone peaks, as a part of it."""

FAILING_REGIONS = ("us-west-2", "eu-west-1", "ap-northeast-1")
"""They fail in turn."""
FIRST_FAILURE_S = 75.0
FAILURE_PERIOD_S = 180.0
FAILURE_S = 40.0
