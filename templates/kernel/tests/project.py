"""This project: its folder and the contents of its kernel.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
KERNEL: dict[str, Any] = json.loads((PROJECT / "kernel.json").read_text())
VARIABLES = KERNEL["name"].upper()
DIMS: dict[str, dict[str, Any]] = {dim["name"]: dim for dim in KERNEL["dims"]}
TENSORS: dict[str, dict[str, Any]] = {tensor["name"]: tensor for tensor in KERNEL["tensors"]}
BY_ROLE: dict[str, str] = {tensor["role"]: tensor["name"] for tensor in KERNEL["tensors"]}
OUTPUT = BY_ROLE["output"]
KEPT = BY_ROLE.get("gathered")  # a second output: the rows of all ranks
ROLES = tuple(role for role in "mnk" if KERNEL[role] is not None)  # axes: a collective alone has no k
