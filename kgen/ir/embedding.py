"""Token embedding: one row of a table per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kgen.ir.operator import Constant, Context, Operand, Operator, per_task, token_rows
from kgen.ir.region import Access, Axis, IntArray, Layout, Span, Tiles
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph


@dataclass(frozen=True)
class Embedding(Operator):
    """out[r, :] = table[tokens[r], :].

    tokens i32 [rows], table bf16 [vocab, hidden], out f32 [rows, hidden].
    """

    tokens: str
    table: str
    out: str

    kind: ClassVar[str] = "embedding"
    axis: ClassVar[Axis] = Axis.ROWS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the table."""
        table, rows = graph.by_name[self.table], graph.runtime.rows
        return (
            Operand("tokens", self.tokens, Layout.ROWS, DType.I32, (rows,)),
            Operand("table", self.table, Layout.WEIGHT, DType.BF16, (table.rows, table.cols)),
            Operand("out", self.out, Layout.ROWS, DType.F32, (rows, table.cols)),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """Its tokens."""
        return [token_rows(graph, self.tokens, Span(tiles.begin, tiles.end))]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its rows."""
        return token_rows(graph, self.out, Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of the table."""
        return per_task(tiles, graph.by_name[self.table].cols * DType.BF16.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The width of a row."""
        return {"hidden": graph.by_name[self.table].cols}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """Copy rows of the table."""
        for r in range(ctx.begin, min(ctx.end, ctx.machine.step.row_count)):
            ctx.operands["out"][r] = ctx.operands["table"][ctx.operands["tokens"][r]].astype(np.float32)
