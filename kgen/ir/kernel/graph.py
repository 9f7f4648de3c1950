"""The graph of a kernel: what the frontend makes of a spec and what the passes start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgen.ir.kernel.added_once import misplaced_residuals
from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.constraint import Constraint, constraints
from kgen.ir.kernel.dims import Extent, Range, extent, size
from kgen.ir.kernel.matmul import Matmul
from kgen.ir.kernel.operator import Cost, KernelOperator, Sizes
from kgen.ir.kernel.overlap import AUTO, Overlap
from kgen.ir.kernel.tensor import KernelTensor, TensorType


@dataclass(frozen=True)
class KernelGraph:
    """Operators in program order over named tensors, each of which is written once at most.

    world: the numbers of ranks that the spec names; `worlds` are those that the compiled-in sizes allow.
    deterministic: additions have a fixed order, and summands are f32.
    """

    name: str
    world: Range
    dims: Mapping[str, Extent]
    tensors: tuple[KernelTensor, ...]
    ops: tuple[KernelOperator, ...]
    outputs: tuple[str, ...]
    deterministic: bool = True
    overlap: Overlap = AUTO

    @cached_property
    def types(self) -> dict[str, TensorType]:
        """The types of the tensors by name."""
        return {tensor.name: tensor.type for tensor in self.tensors}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """The tensors that the caller gives."""
        written = {op.out for op in self.ops}
        return tuple(tensor.name for tensor in self.tensors if tensor.name not in written)

    @cached_property
    def runtime_dims(self) -> tuple[str, ...]:
        """The dims whose values are given at the call."""
        return tuple(name for name, known in self.dims.items() if not isinstance(known, int))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """What sizes must be multiples of."""
        return constraints(self.tensors)

    @cached_property
    def worlds(self) -> tuple[int, ...]:
        """The numbers of ranks with which the kernel can run."""
        return tuple(
            world
            for world in range(self.world.first, self.world.last + 1)
            if all(c.can_hold(extent(self.dims, c.axis), world) for c in self.constraints)
        )

    @property
    def matmul(self) -> Matmul | None:
        """The matrix product, of which a kernel has at most one."""
        return next((op for op in self.ops if isinstance(op, Matmul)), None)

    def call_problems(self, sizes: Mapping[str, int], world: int) -> list[str]:
        """Why a call with these values of `runtime_dims` on so many ranks is refused, as sentences."""
        problems = []
        if not self.world.first <= world <= self.world.last:
            problems.append(f"world is {world}, which is not in {self.world}")
        for name in self.runtime_dims:
            known = self.dims[name]
            if name not in sizes:
                problems.append(f"{name} is not given")
            elif isinstance(known, Range) and not known.first <= sizes[name] <= known.last:
                problems.append(f"{name} is {sizes[name]}, which is not in {known}")
        problems += [f"{name} is not decided at run time" for name in sizes if name not in self.runtime_dims]
        if problems:
            return problems
        found = (c.problem(size(self.dims, sizes, c.axis), world) for c in self.constraints)
        return [problem for problem in found if problem]

    def evaluate(
        self, inputs: Mapping[str, Ranks], *, rounded: bool = False, every: bool = False
    ) -> dict[str, Ranks]:
        """The outputs on every rank (with `every`, all tensors), in float64, from the inputs on every rank.

        rounded: tensors hold what their dtypes can; else nothing rounds. Inputs of any NumPy dtype are taken.
        """
        arithmetic = Arithmetic(rounded, self.deterministic)
        values: dict[str, Ranks] = {}
        for name in self.inputs:
            dtype = self.types[name].dtype
            values[name] = [arithmetic.store(np.asarray(part), dtype) for part in inputs[name]]
        for op in self.ops:
            operands = [values[name] for name in op.reads.values()]
            values[op.out] = op.evaluate(operands, self.types, arithmetic)
        return values if every else {name: values[name] for name in self.outputs}

    def costs(self, sizes: Mapping[str, int], world: int) -> dict[str, Cost]:
        """What each operator takes of one rank in a call, by the operator's name."""
        call = Sizes(self.dims, sizes, world)
        return {op.name: op.cost(self.types, call) for op in self.ops}

    def check(self) -> list[str]:
        """What breaks the rules of the operators, as sentences; the frontend makes no such graph."""
        problems = []
        for op in self.ops:
            unknown = [name for name in (*op.reads.values(), op.out) if name not in self.types]
            problems += [f"{op.name}: there is no tensor `{name}`" for name in unknown]
            if unknown:
                continue
            type_, wrong = op.infer(self.types, self.dims)
            problems += [f"{op.name}: {w.message}" for w in wrong]
            given = self.types[op.out]
            if type_ is not None and not type_.agrees(given, self.dims):
                problems.append(f"{op.name}: `{op.out}` is {given}, but it writes {type_}")
        misplaced = misplaced_residuals(self.ops, self.types, self.dims)
        return problems + [f"{op.name}: {wrong.message}" for op, wrong in misplaced]
