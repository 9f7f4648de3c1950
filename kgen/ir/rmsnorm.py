"""RMS normalization of token rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kgen.ir.machine import Array
from kgen.ir.operator import Constant, Context, Operand, Operator, per_task, token_rows
from kgen.ir.region import Access, Axis, IntArray, Layout, Span, Tiles
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph


@dataclass(frozen=True)
class RmsNorm(Operator):
    """out = x / sqrt(mean(x^2) + eps) * weight, row by row.

    x f32 [rows, n], weight bf16 [n], out bf16 [rows, n].
    """

    x: str
    weight: str
    out: str
    eps: float

    kind: ClassVar[str] = "rmsnorm"
    axis: ClassVar[Axis] = Axis.ROWS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the weight."""
        n, rows = graph.by_name[self.weight].cols, graph.runtime.rows
        return (
            Operand("x", self.x, Layout.ROWS, DType.F32, (rows, n)),
            Operand("weight", self.weight, Layout.WEIGHT, DType.BF16, (n,)),
            Operand("out", self.out, Layout.ROWS, DType.BF16, (rows, n)),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """Its rows of x."""
        return [token_rows(graph, self.x, Span(tiles.begin, tiles.end))]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its rows."""
        return token_rows(graph, self.out, Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of x."""
        return per_task(tiles, graph.by_name[self.x].cols * DType.F32.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The width of a row and eps."""
        return {"n": graph.by_name[self.weight].cols, "eps": self.eps}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """Normalize rows in f32 and round once."""
        weight = ctx.operands["weight"].astype(np.float32)
        for r in range(ctx.begin, min(ctx.end, ctx.machine.step.row_count)):
            ctx.operands["out"][r] = rms_norm(ctx.operands["x"][r], weight, float(ctx.constants["eps"]))


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """The norm of a vector f32 [n] in f32."""
    mean_square = np.mean(x * x, dtype=np.float32)
    result: Array = x / np.sqrt(mean_square + np.float32(eps)) * weight
    return result
