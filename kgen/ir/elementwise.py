"""Elementwise operators on token rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kgen.ir.linear import silu
from kgen.ir.operator import Constant, Context, Operand, Operator, per_task, token_rows
from kgen.ir.region import Access, Axis, IntArray, Layout, Span, Tiles
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph


@dataclass(frozen=True)
class SiluMul(Operator):
    """out = silu(gate) * up. gate and up f32 [rows, n], out bf16 [rows, n]."""

    gate: str
    up: str
    out: str

    kind: ClassVar[str] = "silu_mul"
    axis: ClassVar[Axis] = Axis.ROWS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the gate."""
        shape = (graph.runtime.rows, graph.by_name[self.gate].cols)
        return (
            Operand("gate", self.gate, Layout.ROWS, DType.F32, shape),
            Operand("up", self.up, Layout.ROWS, DType.F32, shape),
            Operand("out", self.out, Layout.ROWS, DType.BF16, shape),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """Its rows of both inputs."""
        return [token_rows(graph, t, Span(tiles.begin, tiles.end)) for t in (self.gate, self.up)]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its rows."""
        return token_rows(graph, self.out, Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of both inputs."""
        return per_task(tiles, 2 * graph.by_name[self.gate].cols * DType.F32.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The width of a row."""
        return {"n": graph.by_name[self.gate].cols}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """In f32, rounded once."""
        for r in range(ctx.begin, min(ctx.end, ctx.machine.step.row_count)):
            ctx.operands["out"][r] = silu(ctx.operands["gate"][r]) * ctx.operands["up"][r]


@dataclass(frozen=True)
class Add(Operator):
    """out = a + b, all f32 [rows, n]; out may be a or b."""

    a: str
    b: str
    out: str

    kind: ClassVar[str] = "add"
    axis: ClassVar[Axis] = Axis.ROWS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow a."""
        shape = (graph.runtime.rows, graph.by_name[self.a].cols)
        return tuple(
            Operand(slot, getattr(self, slot), Layout.ROWS, DType.F32, shape) for slot in ("a", "b", "out")
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """Its rows of both inputs."""
        return [token_rows(graph, t, Span(tiles.begin, tiles.end)) for t in (self.a, self.b)]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its rows."""
        return token_rows(graph, self.out, Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of both inputs."""
        return per_task(tiles, 2 * graph.by_name[self.a].cols * DType.F32.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The width of a row."""
        return {"n": graph.by_name[self.a].cols}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """In f32."""
        for r in range(ctx.begin, min(ctx.end, ctx.machine.step.row_count)):
            ctx.operands["out"][r] = ctx.operands["a"][r] + ctx.operands["b"][r]
