"""All-reduce: every rank gets the whole sum over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.dims import Dims
from kgen.ir.kernel.operator import Cost, KernelOperator, Mismatch, Sizes, Types
from kgen.ir.kernel.reduce_scatter import A_PARTIAL_TENSOR
from kgen.ir.kernel.tensor import TensorType


@dataclass(frozen=True)
class AllReduce(KernelOperator):
    """out = the sum of x over the ranks, the same on every rank."""

    x: str

    kind: ClassVar[str] = "all_reduce"

    @property
    def reads(self) -> dict[str, str]:
        """The tensor that is partial."""
        return {"x": self.x}

    def infer(self, types: Types, dims: Dims) -> tuple[TensorType | None, list[Mismatch]]:
        """x is partial; out is not."""
        if not types[self.x].partial:
            return None, [self._cannot_take("x", types, A_PARTIAL_TENSOR)]
        return replace(types[self.x], partial=False), []

    def evaluate(self, operands: Sequence[Ranks], types: Types, arithmetic: Arithmetic) -> Ranks:
        """The sum, once for each rank."""
        total = arithmetic.total(operands[0], types[self.out].dtype)
        return [total.copy() for _ in operands[0]]

    def cost(self, types: Types, sizes: Sizes) -> Cost:
        """In two shots: each rank adds up one block and sends the sum to all."""
        whole, elements, world = self._measures(types, sizes)
        block = -(-whole // world)
        additions = (world - 1) * -(-elements // world)
        return Cost(additions, 2 * whole + (world + 1) * block, 2 * (world - 1) * block)

    def one_shot_cost(self, types: Types, sizes: Sizes) -> Cost:
        """In one shot: each rank sends everything to all and adds up everything itself."""
        whole, elements, world = self._measures(types, sizes)
        return Cost((world - 1) * elements, (world + 1) * whole, (world - 1) * whole)

    def _measures(self, types: Types, sizes: Sizes) -> tuple[int, int, int]:
        x = types[self.x]
        return sizes.bytes(x), prod(sizes.shape(x)), sizes.world
