"""Every metric of every role, declared here and nowhere else. `docs/metrics.md` is made of it.

Names end in their unit (`_seconds`, `_tokens_per_second`, `_ratio`; counters in `_total`, which is added) and use the
glossary's words. A ratio is 0 to 1 unless its text says otherwise.
"""

from __future__ import annotations

from director.metrics.metric import Metric, Role

DEPLOYMENT = ("region", "model", "version")

DECISION_BOUNDS_S = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3)
"""A decision takes tens of microseconds; what takes a millisecond waited for something."""
DNS_BOUNDS_S = (5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1)
TICK_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5)
"""Ticks are a second apart: above 0.75 s there is little left."""

CATALOG: dict[str, Metric] = {}


def _declared(metric: Metric) -> Metric:
    assert metric.name not in CATALOG, metric.name
    CATALOG[metric.name] = metric
    return metric


def _counter(roles: tuple[Role, ...], name: str, text: str, *labels: str) -> Metric:
    return _declared(Metric(name, "counter", text, tuple(sorted(labels)), roles))


def _gauge(roles: tuple[Role, ...], name: str, text: str, *labels: str) -> Metric:
    return _declared(Metric(name, "gauge", text, tuple(sorted(labels)), roles))


def _histogram(roles: tuple[Role, ...], name: str, text: str, bounds: tuple[float, ...]) -> Metric:
    return _declared(Metric(name, "histogram", text, (), roles, bounds))


# Every process.

_ALL: tuple[Role, ...] = ("api", "dns", "planner", "agent")

BUILD = _gauge(_ALL, "director_build_info", "1, with the release that runs.", "release")

# api: what it was asked.

_API: tuple[Role, ...] = ("api",)

DECISIONS = _counter(_API, "director_decisions", "Decisions answered.", "region", "model", "reason", "affinity")
REFUSALS = _counter(_API, "director_decision_refusals", "Questions without a decision.", "code")
DECISION_SECONDS = _histogram(
    _API,
    "director_decision_seconds",
    "From a whole request to its answer's bytes; one request in 64 is timed.",
    DECISION_BOUNDS_S,
)
DECISIONS_LOGGED = _counter(_API, "director_decisions_logged", "Decisions and refusals written to the decision log.")
DEMAND_DROPPED = _counter(
    _API, "director_demand_dropped", "Requests that could not be counted as demand: more routes than are kept."
)
REPORTS = _counter(_API, "director_reports", "Reports received.", "region", "outcome")
DEPLOYMENTS_DROPPED = _counter(
    _API, "director_report_deployments_dropped", "Deployments left out of accepted reports.", "region"
)
OUTCOMES = _counter(_API, "director_outcomes", "Requests whose end an L7 told.", "class")

# api: the replica.

READY = _gauge(_API, "director_ready", "1 when there is a plan to decide by.")
STATIC = _gauge(_API, "director_static", "1 while decisions rest on an old plan.")
DATABASE_AWAY = _gauge(_API, "director_database_away", "1 while Postgres cannot be reached.")
PLAN_AGE = _gauge(_API, "director_plan_age_seconds", "Age of the planner's last heartbeat.")
POLICY_VERSION = _gauge(_API, "director_policy_version", "Version of the policy in use.")
PLAN_EPOCH = _gauge(_API, "director_plan_epoch", "Epoch of the plan in use.")
PLAN_STATIC = _gauge(_API, "director_plan_static", "1 while the planner holds the fleet's silence for its own fault.")

# api: the plan in use. The same on every replica, so take `max`, never `sum`, over instances.

REGION_FRESHNESS = _gauge(
    _API, "director_region_freshness", "1 for what the region's reports are.", "region", "freshness"
)
REGION_DOWN = _gauge(_API, "director_region_down", "1 while an operator has the region down.", "region")
REGION_DRAINING = _gauge(_API, "director_region_draining", "1 while an operator drains the region.", "region")
REGION_SHARE_CAP = _gauge(
    _API, "director_region_share_cap_ratio", "An operator's bound on the region's share; 1 is none.", "region"
)

READY_REPLICAS = _gauge(_API, "director_deployment_ready_replicas", "Replicas ready to serve.", *DEPLOYMENT)
CAPACITY = _gauge(_API, "director_deployment_capacity_tokens_per_second", "What a deployment can sustain.", *DEPLOYMENT)
OFFERED = _gauge(
    _API, "director_deployment_offered_tokens_per_second", "New demand whose home a deployment is.", *DEPLOYMENT
)
PINNED = _gauge(_API, "director_deployment_pinned_tokens_per_second", "Demand that sessions hold there.", *DEPLOYMENT)
DEMAND_CAPACITY = _gauge(
    _API,
    "director_deployment_demand_capacity_ratio",
    "Offered and pinned demand ÷ capacity, above 1 when short. It includes what shedding hides: scale by it.",
    *DEPLOYMENT,
)
HEADROOM = _gauge(
    _API, "director_deployment_headroom_tokens_per_second", "What guests may use of a deployment.", *DEPLOYMENT
)
ADMIT_HOME = _gauge(
    _API, "director_deployment_admit_home_ratio", "Fraction of its home demand that is let in.", *DEPLOYMENT
)
ADMIT_OVERFLOW = _gauge(
    _API,
    "director_deployment_admit_overflow_ratio",
    "Fraction of the overflow offered to it in the first round that is let in; 0 is closed to guests.",
    *DEPLOYMENT,
)
RELEASE = _gauge(_API, "director_deployment_release_ratio", "Fraction of its sessions that is let go.", *DEPLOYMENT)
QUALITY = _gauge(_API, "director_deployment_quality_ratio", "What errors leave of its capacity.", *DEPLOYMENT)
TRIM = _gauge(_API, "director_deployment_trim_ratio", "Slow correction of its budget, 0.5 to 1.2.", *DEPLOYMENT)
BREAKER_OPEN = _gauge(
    _API, "director_deployment_breaker_open", "1 while the breaker is open, 0.5 while half open.", *DEPLOYMENT
)
BREAKER_HELD_IN = _gauge(
    _API,
    "director_deployment_breaker_held_in",
    "1 while the breaker ought to be open, and too much of the model's capacity is ejected for that.",
    *DEPLOYMENT,
)

# dns.

_DNS: tuple[Role, ...] = ("dns",)

DNS_ANSWERS = _counter(_DNS, "director_dns_answers", "Answers sent.", "zone", "type", "rcode", "transport")
DNS_LIMITED = _counter(
    _DNS, "director_dns_limited", "Queries and connections that a limit or a fault took an answer from.", "why"
)
DNS_BATCH = _histogram(
    _DNS,
    "director_dns_batch_seconds",
    "UDP: from the wake-up that read a query to the end of its batch; an upper bound of its service time.",
    DNS_BOUNDS_S,
)
DNS_BOOKS = _counter(_DNS, "director_dns_books", "Changes of plan, zones or staleness.")
DNS_TCP_ACCEPTED = _counter(_DNS, "director_dns_tcp_accepted", "TCP connections accepted.")
DNS_TCP_CONNECTIONS = _gauge(_DNS, "director_dns_tcp_connections", "TCP connections open.")
DNS_PLAN_EPOCH = _gauge(_DNS, "director_dns_plan_epoch", "Epoch of the plan that answers rest on; 0 is none.")
DNS_STATIC = _gauge(_DNS, "director_dns_static", "1 while answers rest on an old plan.")

# planner: the process, leading or not.

_PLANNER: tuple[Role, ...] = ("planner",)

LEADER = _gauge(_PLANNER, "director_leader", "1 while this process holds the lease.")
LEASE_TERM = _gauge(_PLANNER, "director_lease_term", "Term of the lease that this process holds; 0 is none.")
TICKS = _counter(
    _PLANNER,
    "director_planner_ticks",
    "Ticks: `published` (state, and a plan if one changed), `following` (another leads), `no_policy`, `database_away`, "
    "`fenced` (our term was over), `failed` (a fault of ours; the log has it).",
    "result",
)
TICK_SECONDS = _histogram(
    _PLANNER, "director_planner_tick_seconds", "A leader's whole tick, database included.", TICK_BOUNDS_S
)
STEP_SECONDS = _histogram(
    _PLANNER, "director_planner_step_seconds", "Its pure part: from observations to a plan.", TICK_BOUNDS_S
)
PLANS_PUBLISHED = _counter(_PLANNER, "director_plans_published", "Plans published: a published value had changed.")
EVENTS = _counter(_PLANNER, "director_planner_events", "Changes of state that the planner wrote.", "kind")
OUTAGES = _counter(
    _PLANNER, "director_planner_outage_seconds", "Time without any report while the database was away: no region ages."
)

# planner: what the leader observes. Absent on the others.

REPORT_AGE = _gauge(_PLANNER, "director_region_report_age_seconds", "Age of the region's newest report.", "region")
UTILISATION = _gauge(
    _PLANNER, "director_deployment_utilisation_ratio", "Load ÷ capacity as reported; may exceed 1.", *DEPLOYMENT
)
ERROR_RATIO = _gauge(_PLANNER, "director_deployment_error_ratio", "Failed ÷ all requests, smoothed.", *DEPLOYMENT)
TTFT_P50 = _gauge(_PLANNER, "director_deployment_ttft_p50_seconds", "Time to first token, median.", *DEPLOYMENT)
TTFT_P95 = _gauge(
    _PLANNER, "director_deployment_ttft_p95_seconds", "Time to first token that one in twenty exceeds.", *DEPLOYMENT
)
ARRIVALS_CORRECTION = _gauge(
    _PLANNER,
    "director_deployment_arrivals_correction",
    "Arrivals that the region reports ÷ tokens decided into it (κ): 1 when estimates are right.",
    *DEPLOYMENT,
)
ROUTES = _gauge(_PLANNER, "director_planner_routes", "Routes with demand that the planner keeps account of.")

# agent.

_AGENT: tuple[Role, ...] = ("agent",)

AGENT_GATEWAY_UP = _gauge(
    _AGENT, "director_agent_gateway_up", "1 when the region's gateway answers; 0.5 when shaky, 0 when down."
)
AGENT_TARGETS = _gauge(_AGENT, "director_agent_targets", "Targets by whether they answer.", "state")
AGENT_SCRAPES = _counter(_AGENT, "director_agent_scrapes", "Scrapes begun.")
AGENT_SCRAPES_FAILED = _counter(_AGENT, "director_agent_scrapes_failed", "Scrapes without a dump.")
AGENT_REPORTS = _counter(
    _AGENT, "director_agent_reports", "Reports: `accepted`, `failed`, `superseded`.", "director", "result"
)
AGENT_READY_REPLICAS = _gauge(
    _AGENT, "director_agent_ready_replicas", "Ready replicas as reported.", "model", "version"
)
AGENT_PROBLEMS = _gauge(_AGENT, "director_agent_problems", "Targets or sources with a problem.", "model", "version")
