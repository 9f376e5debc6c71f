"""Decoding the planner's state a piece at a time.

One call that decodes the ten megabytes of a large fleet's state holds the interpreter for a third of a second,
whichever thread it is made in, and every decision waits. Here the long tuples are only split at first, and then decoded
item by item, so that other threads run in between.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct, structs

from director.core.plan import DeploymentPlan, Plan
from director.core.state import DeploymentMemory, PlannerState


def _split(kind: type[Struct], raw: dict[str, Any]) -> msgspec.json.Decoder[Any]:
    """A decoder of a struct like `kind` whose fields in `raw` stay as they are."""
    fields = [
        (one.encode_name, raw.get(one.encode_name, one.type), msgspec.field(default=None))
        for one in structs.fields(kind)
    ]
    return msgspec.json.Decoder(
        msgspec.defstruct(kind.__name__, fields, array_like=kind.__struct_config__.array_like, frozen=True)
    )


_state = _split(PlannerState, {"deployments": tuple[Raw, ...], "plan": Raw})
_plan = _split(Plan, {"deployments": tuple[Raw, ...]})
_memory = msgspec.json.Decoder(DeploymentMemory).decode
_deployment = msgspec.json.Decoder(DeploymentPlan).decode


def decode_state(content: bytes) -> PlannerState:
    """The same as decoding it at once. For a thread. Raises msgspec.MsgspecError for what another release wrote."""
    told = _given(_state.decode(content))
    told["deployments"] = tuple([_memory(one) for one in told.get("deployments", ())])
    plan = told.pop("plan", None)
    return PlannerState(**told, plan=None if plan is None or bytes(plan) == b"null" else _decode_plan(plan))


def _decode_plan(content: Raw) -> Plan:
    told = _given(_plan.decode(content))
    told["deployments"] = tuple([_deployment(one) for one in told.get("deployments", ())])
    try:
        return Plan(**told)
    except TypeError as error:
        raise msgspec.ValidationError(str(error)) from None


def _given(shell: Struct) -> dict[str, Any]:
    """Fields that were there; the others have their own defaults."""
    return {name: value for name in shell.__struct_fields__ if (value := getattr(shell, name)) is not None}
