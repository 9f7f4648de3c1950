"""All-gather: every rank gets the blocks of all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.dims import Dims
from kgen.ir.kernel.operator import Cost, KernelOperator, Mismatch, Sizes, Types
from kgen.ir.kernel.tensor import TensorType


@dataclass(frozen=True)
class AllGather(KernelOperator):
    """out = the blocks of x side by side on `axis`, the same on every rank."""

    x: str
    axis: int = 0

    kind: ClassVar[str] = "all_gather"

    @property
    def reads(self) -> dict[str, str]:
        """The tensor that is sharded."""
        return {"x": self.x}

    def infer(self, types: Types, dims: Dims) -> tuple[TensorType | None, list[Mismatch]]:
        """x is sharded on the axis; out is x whole."""
        x = types[self.x]
        if x.shard != self.axis:
            expected = f"a tensor that is sharded on axis {self.axis}"
            return None, [self._cannot_take("x", types, expected)]
        return replace(x, shard=None), []

    def evaluate(self, operands: Sequence[Ranks], types: Types, arithmetic: Arithmetic) -> Ranks:
        """Copies only, so nothing rounds."""
        whole = np.concatenate(operands[0], axis=self.axis)
        return [whole.copy() for _ in operands[0]]

    def cost(self, types: Types, sizes: Sizes) -> Cost:
        """A rank sends its block to each peer; all blocks are written on each rank."""
        block = sizes.bytes(types[self.x])
        return Cost(0, block + sizes.world * block, (sizes.world - 1) * block)
