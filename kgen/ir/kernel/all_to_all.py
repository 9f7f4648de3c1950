"""All-to-all: a tensor that is sharded on one axis becomes sharded on another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from kgen.ir.kernel.arithmetic import Arithmetic, Ranks
from kgen.ir.kernel.dims import Dims, block
from kgen.ir.kernel.operator import Cost, KernelOperator, Mismatch, Sizes, Types
from kgen.ir.kernel.tensor import TensorType


@dataclass(frozen=True)
class AllToAll(KernelOperator):
    """Each rank cuts its part of x on the axis `split` and joins what it gets on the axis `concat`.

    So x is sharded on `concat` and out, the same tensor, on `split`.
    """

    x: str
    split: int
    concat: int

    kind: ClassVar[str] = "all_to_all"

    @property
    def reads(self) -> dict[str, str]:
        """The tensor that is sharded."""
        return {"x": self.x}

    def infer(self, types: Types, dims: Dims) -> tuple[TensorType | None, list[Mismatch]]:
        """x is sharded on `concat`; out on `split`."""
        x = types[self.x]
        if self.split == self.concat:
            message = f"{self.kind} splits and joins on the same axis {self.split}, which changes nothing"
            return None, [Mismatch("split", message, f"split: {1 - self.concat}")]
        if x.shard != self.concat:
            expected = f"a tensor that is sharded on axis {self.concat}, on which the blocks are joined"
            return None, [self._cannot_take("x", types, expected)]
        if self.split >= len(x.shape):
            return None, [self._cannot_take("x", types, "a matrix")]
        return replace(x, shard=self.split), []

    def evaluate(self, operands: Sequence[Ranks], types: Types, arithmetic: Arithmetic) -> Ranks:
        """Copies only, so nothing rounds."""
        parts = operands[0]
        world, length = len(parts), parts[0].shape[self.split]
        blocks = [slice(*block(length, world, rank)) for rank in range(world)]
        cut = [[np.moveaxis(np.moveaxis(p, self.split, 0)[b], 0, self.split) for p in parts] for b in blocks]
        return [np.concatenate(pieces, axis=self.concat) for pieces in cut]

    def cost(self, types: Types, sizes: Sizes) -> Cost:
        """Each rank keeps one block of its part and sends the others."""
        part = sizes.bytes(types[self.x])
        block_bytes = -(-part // sizes.world)
        return Cost(0, 2 * part, (sizes.world - 1) * block_bytes)
