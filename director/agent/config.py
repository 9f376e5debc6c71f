"""What an agent is told: its region, its directors, where its engines are. One YAML file, checked whole.

```yaml
region: eu-west-1
directors: [{url: https://director.example.net, token_file: /run/secrets/report-token}]
deployments:
  - {model: llama-3.3-70b, version: "2026-08-14", engine: vllm, replica_max_running: 256,
     sources: [{static: [http://10.0.0.7:8000, http://10.0.0.8:8000]}, {epp: http://10.0.0.2:9090, pool: llama}]}
gateway: {url: https://gateway.local/health}
```
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from director.agent.engines import EngineName
from director.agent.reading import StageName
from director.core.report import Adapters


class ConfiguredAdapters(Adapters, frozen=True, forbid_unknown_fields=True):
    """LoRA adapters that every replica holds, or can load when asked."""


class ConfigInvalid(Exception):
    """The file cannot be used. One problem a line, each with its field's path and what was expected."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Tls(Struct, frozen=True, forbid_unknown_fields=True):
    """For HTTPS with a private authority, or a client certificate. Paths of PEM files."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class DirectorEndpoint(Struct, frozen=True, forbid_unknown_fields=True):
    """One director to report to. The token comes from exactly one of `token`, `token_file`, `token_env`."""

    url: str
    token: str | None = None
    token_file: str | None = None
    """Read again before each report, so that a rotated token needs no restart."""
    token_env: str | None = None
    timeout_s: float = 3.0
    tls: Tls | None = None


class DnsSource(Struct, frozen=True, forbid_unknown_fields=True):
    """Every address of a name, such as a Kubernetes headless service."""

    name: str
    port: int
    refresh_s: float = 10.0


class Source(Struct, frozen=True, forbid_unknown_fields=True):
    """Where some of a deployment's replicas are. Exactly one of static, dns, dns_srv, file_sd, epp, prometheus."""

    static: tuple[str, ...] | None = None
    """URLs of replicas; the engine's metrics path is added to those without a path."""
    dns: DnsSource | None = None
    dns_srv: str | None = None
    """A name with SRV records, which give hosts and ports."""
    file_sd: str | None = None
    """A file (or a glob of files) in Prometheus' file_sd format, JSON or YAML."""
    epp: str | None = None
    pool: str | None = None
    """Which pool of the Endpoint Picker, where it has several."""
    prometheus: str | None = None
    """Base URL of a Prometheus server that scrapes the replicas."""
    selector: str = ""
    """Label matchers added to the shipped Prometheus query, such as `namespace="llm"`."""
    query: str | None = None
    """A selector in place of the shipped one, which asks for the engine's series by name."""
    stage: StageName | None = None
    metrics_path: str | None = None
    tls: Tls | None = None

    KINDS = ("static", "dns", "dns_srv", "file_sd", "epp", "prometheus")

    @property
    def kind(self) -> str:
        return next(kind for kind in self.KINDS if getattr(self, kind) is not None)


class DeploymentConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """One model version served in the region."""

    model: str
    version: str
    sources: tuple[Source, ...]
    engine: EngineName | None = None
    """None: found out from what the replicas answer."""
    served_as: tuple[str, ...] = ()
    """The names the engine or the picker gives the model, where its answers hold several."""
    replica_max_running: float | None = None
    """Requests one replica runs at once (vLLM's --max-num-seqs); few engines say it themselves."""
    replica_capacity_tokens_per_s: float | None = None
    """What one replica sustains, where it was measured. None: estimated from completions."""
    replicas_total: int | None = None
    """How many there ought to be, where only a picker counts them."""
    adapters: ConfiguredAdapters = ConfiguredAdapters()
    draining: bool = False
    """Reported as such, so that no new session comes, while replicas are taken down."""


class GatewayCheck(Struct, frozen=True, forbid_unknown_fields=True):
    """A real request to the region's own gateway: models can be fine behind a dead one."""

    url: str
    status: int = 200
    interval_s: float = 5.0
    timeout_s: float = 2.0
    failures_to_down: int = 3
    completion_model: str | None = None
    """Ask this model for one token by POST instead of fetching the URL."""
    tls: Tls | None = None


class OwnMetrics(Struct, frozen=True, forbid_unknown_fields=True):
    """The agent's own `GET /metrics`."""

    port: int = 9464
    host: str = "127.0.0.1"


class AgentConfig(Struct, frozen=True, forbid_unknown_fields=True):
    region: str
    directors: tuple[DirectorEndpoint, ...]
    deployments: tuple[DeploymentConfig, ...]
    interval_s: float = 5.0
    """Between reports, and between scrapes of one replica."""
    scrape_timeout_s: float = 2.0
    gateway: GatewayCheck | None = None
    metrics: OwnMetrics | None = None
    log: Literal["json", "text"] = "text"
