"""The instantiations of task templates as `src/program.hpp` prints them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from kgen.plan.plan import Plan, Variant

_LAYER = re.compile(r"\.\d+(?=\.)")
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Constant:
    """One `static constexpr` member."""

    cpp_type: str  # bool, int or float
    name: str
    value: str  # a literal of that type


@dataclass(frozen=True, slots=True)
class VariantView:
    """A struct of constants, and the task type made from it."""

    index: int
    struct: str  # "Linear2"
    task: str  # "mpk::tasks::Linear<Linear2>"
    used_by: str  # names of the operators, layers folded: "layers.*.o"
    constants: tuple[Constant, ...]
    slots: str  # "x = 0, weight = 1, out = 2", or "" where a task has no operands
    jit: bool


def make_variants(plan: Plan) -> tuple[VariantView, ...]:
    """A view of every variant of `plan`, in order."""
    users: dict[int, dict[str, None]] = {}
    for op in plan.ops:
        users.setdefault(op.variant, {})[_LAYER.sub(".*", op.name)] = None
    jit = {plan.ops[run.op].variant for run in plan.runs if run.jit}
    return tuple(_view(i, v, tuple(users.get(i, ())), i in jit) for i, v in enumerate(plan.variants))


def headers(plan: Plan) -> tuple[str, ...]:
    """The task headers that the variants need, sorted."""
    return tuple(sorted({variant.header for variant in plan.variants}))


def _view(index: int, variant: Variant, users: tuple[str, ...], jit: bool) -> VariantView:
    struct = f"{variant.cpp_type.rpartition('::')[2]}{index}"
    return VariantView(
        index=index,
        struct=struct,
        task=f"{variant.cpp_type}<{struct}>",
        used_by=", ".join(users),
        constants=tuple(constant(name, value) for name, value in variant.constants),
        slots=", ".join(f"{name} = {slot}" for slot, name in enumerate(variant.operands)),
        jit=jit,
    )


def constant(name: str, value: bool | int | float) -> Constant:
    """The C++ member for a constant of a variant. Raises ValueError for what `int` or `float` cannot hold."""
    if isinstance(value, bool):
        return Constant("bool", name, "true" if value else "false")
    if isinstance(value, int):
        if abs(value) > _INT_MAX:
            raise ValueError(f"constant {name} = {value} does not fit in 32 bits")
        return Constant("int", name, str(value))
    if not math.isfinite(value):
        raise ValueError(f"constant {name} = {value} is not a finite number")
    return Constant("float", name, f"{value!r}f")
