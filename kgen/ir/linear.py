"""Linear layers: plain, with bias or residual, fused SwiGLU, and the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kgen.ir.machine import Array
from kgen.ir.operator import Constant, Context, Operand, Operator, per_task, sequence_entries, token_rows
from kgen.ir.region import Access, Axis, IntArray, Layout, Span, Tiles
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph


@dataclass(frozen=True)
class Linear(Operator):
    """out = x @ weight.T (+ bias) (+ residual).

    x bf16 [rows, k], weight bf16 [n, k], bias bf16 [n], out f32 [rows, n]; residual f32 [rows, n] may be out
    itself.
    """

    x: str
    weight: str
    out: str
    bias: str | None = None
    residual: str | None = None

    kind: ClassVar[str] = "linear"
    axis: ClassVar[Axis] = Axis.COLUMNS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the weight."""
        weight, rows = graph.by_name[self.weight], graph.runtime.rows
        n, k = weight.rows, weight.cols
        result = [
            Operand("x", self.x, Layout.ROWS, DType.BF16, (rows, k)),
            Operand("weight", self.weight, Layout.WEIGHT, DType.BF16, (n, k)),
            Operand("out", self.out, Layout.ROWS, DType.F32, (rows, n)),
        ]
        if self.bias is not None:
            result.append(Operand("bias", self.bias, Layout.WEIGHT, DType.BF16, (n,)))
        if self.residual is not None:
            result.append(Operand("residual", self.residual, Layout.ROWS, DType.F32, (rows, n)))
        return tuple(result)

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """All of x, and its columns of the residual."""
        result = [token_rows(graph, self.x)]
        if self.residual is not None:
            result.append(token_rows(graph, self.residual, columns=Span(tiles.begin, tiles.end)))
        return result

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its columns."""
        return token_rows(graph, self.out, columns=Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of the weight."""
        return per_task(tiles, graph.by_name[self.weight].stride * DType.BF16.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The size of the weight and what is added."""
        weight = graph.by_name[self.weight]
        return {
            "n": weight.rows,
            "k": weight.cols,
            "has_bias": self.bias is not None,
            "has_residual": self.residual is not None,
        }

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """Row by row, so that a row does not depend on how many there are."""
        part = slice(ctx.begin, ctx.end)
        weight = ctx.operands["weight"][part].astype(np.float32)
        for r in range(ctx.machine.step.row_count):
            y = weight @ ctx.operands["x"][r].astype(np.float32)
            if "bias" in ctx.operands:
                y = y + ctx.operands["bias"][part].astype(np.float32)
            if "residual" in ctx.operands:
                y = y + ctx.operands["residual"][r, part]
            ctx.operands["out"][r, part] = y


@dataclass(frozen=True)
class SwiGlu(Operator):
    """out = silu(x @ gate.T) * (x @ up.T). x bf16 [rows, k], gate and up bf16 [n, k], out bf16 [rows, n]."""

    x: str
    gate: str
    up: str
    out: str

    kind: ClassVar[str] = "swiglu"
    axis: ClassVar[Axis] = Axis.COLUMNS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the gate."""
        gate, rows = graph.by_name[self.gate], graph.runtime.rows
        n, k = gate.rows, gate.cols
        return (
            Operand("x", self.x, Layout.ROWS, DType.BF16, (rows, k)),
            Operand("gate", self.gate, Layout.WEIGHT, DType.BF16, (n, k)),
            Operand("up", self.up, Layout.WEIGHT, DType.BF16, (n, k)),
            Operand("out", self.out, Layout.ROWS, DType.BF16, (rows, n)),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """All of x."""
        return [token_rows(graph, self.x)]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its columns."""
        return token_rows(graph, self.out, columns=Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of both weights."""
        return per_task(tiles, 2 * graph.by_name[self.gate].stride * DType.BF16.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The size of each weight."""
        gate = graph.by_name[self.gate]
        return {"n": gate.rows, "k": gate.cols}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """Row by row; both products stay in f32."""
        part = slice(ctx.begin, ctx.end)
        gate, up = ctx.operands["gate"][part].astype(np.float32), ctx.operands["up"][part].astype(np.float32)
        for r in range(ctx.machine.step.row_count):
            x = ctx.operands["x"][r].astype(np.float32)
            ctx.operands["out"][r, part] = silu(gate @ x) * (up @ x)


@dataclass(frozen=True)
class Logits(Operator):
    """out[s, :] = x[r, :] @ weight.T for the last row r of each sequence s that samples in this step.

    x bf16 [rows, k], weight bf16 [vocab, k], out f32 [batch, vocab].
    """

    x: str
    weight: str
    out: str

    kind: ClassVar[str] = "logits"
    axis: ClassVar[Axis] = Axis.COLUMNS

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the weight."""
        weight = graph.by_name[self.weight]
        n, k = weight.rows, weight.cols
        return (
            Operand("x", self.x, Layout.ROWS, DType.BF16, (graph.runtime.rows, k)),
            Operand("weight", self.weight, Layout.WEIGHT, DType.BF16, (n, k)),
            Operand("out", self.out, Layout.SEQUENCES, DType.F32, (graph.runtime.batch, n)),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """Rows known only at run time: all of x."""
        return [token_rows(graph, self.x)]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its part of the vocabulary for every sequence."""
        return sequence_entries(graph, self.out, columns=Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Rows of the weight."""
        return per_task(tiles, graph.by_name[self.weight].stride * DType.BF16.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The size of the weight."""
        weight = graph.by_name[self.weight]
        return {"n": weight.rows, "k": weight.cols}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """One product for each sequence that samples."""
        part = slice(ctx.begin, ctx.end)
        weight = ctx.operands["weight"][part].astype(np.float32)
        for s, r in enumerate(ctx.machine.step.sample_row):
            if r >= 0:
                ctx.operands["out"][s, part] = weight @ ctx.operands["x"][r].astype(np.float32)


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    result: Array = x / (1 + np.exp(-x))
    return result
