"""The names of operators: from where one is written to its name, and back."""

from __future__ import annotations

from kgen.frontend.structure import walk
from kgen.spec import ops
from kgen.spec.document import At
from kgen.spec.models import ModelSpec

ADVANCE = "advance"  # ends a step; follows from `sample` and is not written


def labels(spec: ModelSpec) -> dict[At, str]:
    """Each operator's weight or kind, numbered where that is not unique in its block."""
    found: dict[At, str] = {}
    taken: set[tuple[str | None, str]] = {(None, ADVANCE)}
    for path, op, repeat in walk(spec):
        base = label = op.inputs[1] if isinstance(op, ops.LinearOp | ops.RmsNormOp) else op.op
        number = 1
        while (repeat, label) in taken:
            number += 1
            label = f"{base}_{number}"
        taken.add((repeat, label))
        found[path] = label
    return found


def full_name(label: str, repeat: str | None, layer: int) -> str:
    """The name of one iteration of an operator; `repeat` is the dim that it repeats over, if any."""
    return f"{repeat}.{layer}.{label}" if repeat else label


def place_of(spec: ModelSpec, name: str) -> At | None:
    """The path of the operator with this name in a spec that is written out; None if none has it."""
    known = labels(spec)
    repeat, _, rest = name.rpartition(".")[0].partition(".")
    for path, op, block in walk(spec):
        same = block == repeat and rest.isdecimal() if block else not repeat
        if same and known[path] == name.rpartition(".")[2]:
            return path
        if name == ADVANCE and op.op == "sample":
            return path
    return None
