"""The model, its version and its adapter must be there. The model is never changed silently."""

from __future__ import annotations

from fnmatch import fnmatchcase

from director.core.decision import Rejection
from director.core.filters.candidate import Candidate, RouteContext
from director.core.plan import DeploymentPlan


def reject_model(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse regions that serve no version of the model. Permanent until a report says otherwise."""
    if candidate.deployment is None:
        return Rejection("availability", "model_unavailable", True, f"does not serve {route.model}")
    return None


def reject_version(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse versions outside the request's range. Permanent for this request."""
    deployment = candidate.deployment
    if deployment is not None and not version_matches(deployment.version, route.version):
        return Rejection("availability", "version_unavailable", True, f"{deployment.version} is not {route.version}")
    return None


def reject_adapter(candidate: Candidate, route: RouteContext) -> Rejection | None:
    """Refuse deployments where the LoRA adapter is neither loaded nor loadable. Permanent for this request."""
    deployment = candidate.deployment
    if deployment is None or adapter_at_hand(deployment, route.adapter):
        return None
    return Rejection("availability", "adapter_unavailable", True, f"{route.adapter} is neither loaded nor loadable")


def version_matches(version: str, wanted: str) -> bool:
    """Exact, or a glob with `*`, `?` and `[…]`; case matters."""
    return wanted in ("*", version) or fnmatchcase(version, wanted)


def adapter_at_hand(deployment: DeploymentPlan, adapter: str | None) -> bool:
    """Loaded or loadable, or none wanted."""
    return adapter is None or adapter in deployment.adapters_loaded or adapter in deployment.adapters_loadable
