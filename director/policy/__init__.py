"""Policy files → validated policy objects.

`load` reads a folder, `load_files` the same from memory; both raise `PolicyInvalid` with every problem, each with its
file, line, path, what was expected and a near miss. `tree` reads YAML with marks, `shape` holds it to the core's types,
`rules` hold it to everything else, one idea in each.
"""

from __future__ import annotations

from director.policy.load import LoadedPolicy, load, load_files
from director.policy.problem import PolicyInvalid, Problem
from director.policy.schema import json_schema

__all__ = ["LoadedPolicy", "PolicyInvalid", "Problem", "json_schema", "load", "load_files"]
