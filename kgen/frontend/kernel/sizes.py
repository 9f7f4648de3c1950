"""Sizes that are known when a kernel is compiled: rows of whole 16 bytes, on every rank."""

from __future__ import annotations

from collections.abc import Iterable

from kgen.diagnostics import Diagnostic
from kgen.ir.kernel.constraint import ROW_BYTES, Constraint, constraints
from kgen.ir.kernel.dims import Axis, Dims, Extent, Range, extent
from kgen.ir.kernel.tensor import KernelTensor
from kgen.spec.document import At
from kgen.spec.kernel import KernelSpec


def check_sizes(
    spec: KernelSpec, dims: Dims, world: Range, tensors: Iterable[KernelTensor]
) -> list[Diagnostic]:
    """Errors at dims (or at a number in a shape) that no number of ranks can mend."""
    errors = []
    wrong: set[Axis] = set()
    for constraint in constraints(tensors):
        known = extent(dims, constraint.axis)
        if constraint.axis in wrong or any(constraint.can_hold(known, w) for w in _worlds(world)):
            continue
        wrong.add(constraint.axis)
        message, expected = _said(constraint, known, world)
        errors.append(Diagnostic(spec.span(*_place(spec, constraint)), message, expected))
    return errors


def _worlds(world: Range) -> range:
    return range(world.first, world.last + 1)


def _said(constraint: Constraint, known: Extent, world: Range) -> tuple[str, str]:
    """What is wrong with a size that no world can take, and what was expected."""
    axis, multiple, one = constraint.axis, constraint.multiple, world.first == world.last
    what = f"{axis} is {known}" if isinstance(axis, str) else f"this axis of '{constraint.tensor}' is {known}"
    blocks = Constraint(axis, constraint.split, 1, constraint.tensor)
    if any(blocks.can_hold(known, w) for w in _worlds(world)):
        on = f" on {world} ranks" if constraint.split else ""
        expected = (
            f"a multiple of {multiple} elements ({ROW_BYTES} bytes) in every row of '{constraint.tensor}'"
        )
        return f"{what}{on}, which makes rows that are no multiple of {ROW_BYTES} bytes", expected
    if one:
        return f"{what}, which {world} ranks cannot divide", f"a multiple of {constraint.unit(world.first)}"
    return f"{what}, which no world of {world} ranks divides", ""


def _place(spec: KernelSpec, constraint: Constraint) -> At:
    """Where the size is written."""
    if isinstance(constraint.axis, str):
        return ("dims", constraint.axis)
    at: At = ("tensors", constraint.tensor, "shape")
    shape = spec.tensors[constraint.tensor].shape if constraint.tensor in spec.tensors else []
    return (*at, shape.index(constraint.axis)) if constraint.axis in shape else at
