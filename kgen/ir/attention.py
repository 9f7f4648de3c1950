"""Grouped-query attention over the paged KV cache, with RoPE and optional q/k norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kgen.ir.machine import Array
from kgen.ir.operator import Constant, Context, Operand, Operator, rows_of_sequences
from kgen.ir.region import Access, Axis, IntArray, Layout, Span, Tiles
from kgen.ir.rmsnorm import rms_norm
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph


# Channels of a head that its task holds in registers.
MAX_HEAD = 256


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding of the whole head, halves paired (i, i + head / 2).

    factor 1 is the plain form; factor > 1 is Llama 3's scaling of low frequencies (the other three fields).
    """

    theta: float
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_context: int = 8192

    def frequencies(self, head: int) -> Array:
        """Radians per position of each pair, f32 [head / 2]."""
        plain = np.float32(self.theta) ** (-np.arange(0, head, 2, dtype=np.float32) / np.float32(head))
        if self.factor == 1.0:
            return plain
        # Wavelengths up to original / high keep their frequency, those above original / low are slowed down
        # by `factor`, and between the two the frequency changes gradually.
        turns = self.original_context * plain / np.float32(2 * np.pi)
        smooth = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        kept = np.clip(smooth, 0, 1).astype(np.float32)
        result: Array = (1 - kept) * plain / np.float32(self.factor) + kept * plain
        return result


@dataclass(frozen=True)
class Attention(Operator):
    """Append the step's keys and values to the cache, then attend causally.

    qkv f32 [rows, (heads + 2 kv_heads) * head]: q heads, then k heads, then v heads. q_norm and k_norm
    bf16 [head] are RMS norms applied before RoPE. out bf16 [rows, heads * head]. The cache is bf16.
    `kv_layer` counts attention operators from 0. Task: one KV head of one sequence.
    """

    qkv: str
    out: str
    kv_layer: int
    heads: int
    kv_heads: int
    head: int
    scale: float
    rope: Rope | None = None
    q_norm: str | None = None
    k_norm: str | None = None
    eps: float = 1e-6

    kind: ClassVar[str] = "attention"
    axis: ClassVar[Axis] = Axis.SEQUENCES
    jit: ClassVar[bool] = True

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the heads."""
        rows = graph.runtime.rows
        width = (self.heads + 2 * self.kv_heads) * self.head
        result = [
            Operand("qkv", self.qkv, Layout.ROWS, DType.F32, (rows, width)),
            Operand("out", self.out, Layout.ROWS, DType.BF16, (rows, self.heads * self.head)),
        ]
        for slot, tensor in (("q_norm", self.q_norm), ("k_norm", self.k_norm)):
            if tensor is not None:
                result.append(Operand(slot, tensor, Layout.WEIGHT, DType.BF16, (self.head,)))
        return tuple(result)

    def check(self, graph: Graph) -> list[str]:
        """Also the numbers of heads."""
        problems = super().check(graph)
        if self.heads % self.kv_heads:
            problems.append(f"{self.name}: {self.heads} heads do not divide among {self.kv_heads} KV heads")
        if self.head % 8:
            problems.append(f"{self.name}: the head size {self.head} is not a multiple of 8")
        if self.head > MAX_HEAD:
            problems.append(f"{self.name}: the head size {self.head} is more than {MAX_HEAD}")
        return problems

    def parts(self) -> int:
        """KV heads."""
        return self.kv_heads

    def column_unit(self, tensor: str) -> int:
        """A task reads whole heads, so a producer's tile inside one head feeds one KV head only."""
        return self.head if tensor == self.qkv else 0

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """The queries, keys and values of its KV head in the rows of its sequence."""
        sequences, group, head = Span(tiles.begin, tiles.end), self.heads // self.kv_heads, self.head
        parts = (
            (0, group),
            (self.heads, 1),
            (self.heads + self.kv_heads, 1),
        )  # first head of the part, heads
        return [
            rows_of_sequences(
                graph,
                self.qkv,
                sequences,
                Span((first + tiles.index * count) * head, (first + (tiles.index + 1) * count) * head),
            )
            for first, count in parts
        ]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """The heads of its group in the rows of its sequence."""
        width = self.heads // self.kv_heads * self.head
        columns = Span(tiles.index * width, (tiles.index + 1) * width)
        return rows_of_sequences(graph, self.out, Span(tiles.begin, tiles.end), columns)

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """Keys and values of a whole context, which is the most that it can be."""
        tokens = np.full(len(tiles), graph.runtime.context, dtype=np.int64)
        return tokens * (2 * self.head * DType.BF16.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """Heads, page size, norms and RoPE; RoPE's numbers mean nothing without has_rope."""
        rope = self.rope or Rope(theta=1.0)
        return {
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head": self.head,
            "kv_page": graph.runtime.kv_page,
            "scale": self.scale,
            "eps": self.eps,
            "has_q_norm": self.q_norm is not None,
            "has_k_norm": self.k_norm is not None,
            "has_rope": self.rope is not None,
            "rope_theta": rope.theta,
            "rope_factor": rope.factor,
            "rope_low_freq": rope.low_freq_factor,
            "rope_high_freq": rope.high_freq_factor,
            "rope_original_context": rope.original_context,
        }

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """Append all keys and values of the step first: a chunk's later rows see its earlier ones."""
        c, kv_head, s = ctx.constants, ctx.index, ctx.begin
        heads, kv_heads, head = int(c["heads"]), int(c["kv_heads"]), int(c["head"])
        rope = Rope(
            float(c["rope_theta"]),
            float(c["rope_factor"]),
            float(c["rope_low_freq"]),
            float(c["rope_high_freq"]),
            int(c["rope_original_context"]),
        )
        frequencies = rope.frequencies(head) if c["has_rope"] else None

        def prepare(row: int, index: int, norm: str) -> Array:
            x = ctx.operands["qkv"][row, index * head : (index + 1) * head]
            if norm in ctx.operands:
                x = rms_norm(x, ctx.operands[norm].astype(np.float32), float(c["eps"]))
            return x if frequencies is None else _rotate(x, ctx.machine.step.position[row] * frequencies)

        first = int(ctx.machine.step.first_row[s])
        rows = range(first, first + int(ctx.machine.step.rows_of[s]))
        for r in rows:
            key, value = ctx.machine.kv.entry(ctx.layer, s, kv_head, int(ctx.machine.step.position[r]))
            key[:] = prepare(r, heads + kv_head, "k_norm")
            at = (heads + kv_heads + kv_head) * head
            value[:] = ctx.operands["qkv"][r, at : at + head]
        group = heads // kv_heads
        for r in rows:
            length = int(ctx.machine.step.position[r]) + 1
            keys, values = ctx.machine.kv.history(ctx.layer, s, kv_head, length)
            for q in range(kv_head * group, (kv_head + 1) * group):
                score = keys @ prepare(r, q, "q_norm") * np.float32(c["scale"])
                weight = np.exp(score - score.max())
                ctx.operands["out"][r, q * head : (q + 1) * head] = (weight / weight.sum()) @ values


def _rotate(x: Array, angle: Array) -> Array:
    """Turn each pair (x[i], x[i + head / 2]) by angle[i]; all f32."""
    angle = angle.astype(np.float32)
    low, high = np.split(x, 2)
    return np.concatenate(
        [low * np.cos(angle) - high * np.sin(angle), high * np.cos(angle) + low * np.sin(angle)]
    )
