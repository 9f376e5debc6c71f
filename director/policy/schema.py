"""The JSON Schema of a policy, for editors and other tools. The loader checks more: names, relations, networks."""

from __future__ import annotations

from typing import Any

import msgspec

from director.core.policy import Policy


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of the merged policy. Unknown keys are refused in it, as the loader does."""
    schema = msgspec.json.schema(Policy)
    definitions: dict[str, dict[str, Any]] = schema["$defs"]
    for definition in definitions.values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    definitions["Residency"] = {
        "description": definitions["Residency"]["description"],
        "anyOf": [{"const": "anywhere"}, definitions["Residency"]],
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Region Director policy", **schema}
