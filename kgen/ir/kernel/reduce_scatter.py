"""Reduce-scatter: every rank gets its block of the sum over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import numpy as np

from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.dims import Dims, block
from kgen.ir.kernel.operator import Cost, KernelOperator, Mismatch, Sizes, Types
from kgen.ir.kernel.tensor import TensorType

A_PARTIAL_TENSOR = (
    "a partial tensor: one declared with partial: true, or a product over an axis that is sharded"
)


@dataclass(frozen=True)
class ReduceScatter(KernelOperator):
    """out = the rank's block on `axis` of the sum of x over the ranks."""

    x: str
    axis: int = 0

    kind: ClassVar[str] = "reduce_scatter"

    @property
    def reads(self) -> dict[str, str]:
        """The tensor that is partial."""
        return {"x": self.x}

    def infer(self, types: Types, dims: Dims) -> tuple[TensorType | None, list[Mismatch]]:
        """x is partial; out is sharded on the axis."""
        x = types[self.x]
        if not x.partial:
            return None, [self._cannot_take("x", types, A_PARTIAL_TENSOR)]
        if self.axis >= len(x.shape):
            return None, [self._cannot_take("x", types, f"a tensor with an axis {self.axis}")]
        return replace(x, partial=False, shard=self.axis), []

    def evaluate(self, operands: Sequence[Ranks], types: Types, arithmetic: Arithmetic) -> Ranks:
        """The sum, cut into blocks."""
        world = len(operands[0])
        total = arithmetic.total(operands[0], types[self.out].dtype)
        blocks = (slice(*block(total.shape[self.axis], world, rank)) for rank in range(world))
        return [np.moveaxis(np.moveaxis(total, self.axis, 0)[b], 0, self.axis).copy() for b in blocks]

    def cost(self, types: Types, sizes: Sizes) -> Cost:
        """A rank sends each peer its block, and adds up what arrives for its own."""
        x = types[self.x]
        own = sizes.bytes(types[self.out])
        additions = (sizes.world - 1) * prod(sizes.shape(types[self.out]))
        return Cost(additions, sizes.bytes(x) + sizes.world * own, (sizes.world - 1) * own)
