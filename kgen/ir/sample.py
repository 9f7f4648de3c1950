"""Choosing the next token, and preparing the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kgen.ir.machine import Finish, next_step
from kgen.ir.operator import Constant, Context, Operand, Operator, per_task, sequence_entries, token_rows
from kgen.ir.region import Access, Axis, IntArray, Layout, Span, Tiles
from kgen.ir.sampling import choose, log_softmax_at
from kgen.ir.tensor import DType

if TYPE_CHECKING:
    from kgen.ir.graph import Graph


@dataclass(frozen=True)
class Sample(Operator):
    """out[s] = the token drawn from logits[s, :] for each sequence s that samples in this step.

    Argmax, or temperature / top-k / top-p with a seed; the choice is the request's, at run time.
    logits f32 [batch, vocab], out i32 [batch].
    """

    logits: str
    out: str

    kind: ClassVar[str] = "sample"
    axis: ClassVar[Axis] = Axis.SEQUENCES

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the logits."""
        batch, vocab = graph.runtime.batch, graph.by_name[self.logits].cols
        return (
            Operand("logits", self.logits, Layout.SEQUENCES, DType.F32, (batch, vocab)),
            Operand("out", self.out, Layout.SEQUENCES, DType.I32, (batch,)),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """The logits of its sequence."""
        return [sequence_entries(graph, self.logits, Span(tiles.begin, tiles.end))]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """Its token."""
        return sequence_entries(graph, self.out, Span(tiles.begin, tiles.end))

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """The logits of its sequence."""
        return per_task(tiles, graph.by_name[self.logits].cols * DType.F32.itemsize)

    def constants(self, graph: Graph) -> dict[str, Constant]:
        """The size of the vocabulary."""
        return {"vocab": graph.by_name[self.logits].cols}

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """The chosen token, or the next one of a prompt that is being scored, and its log-probability."""
        s = ctx.begin
        if ctx.machine.step.sample_row[s] < 0:
            return
        sequence, logits = ctx.machine.sequences[s], ctx.operands["logits"][s]
        prompt = sequence.request.prompt
        position = sequence.position + int(ctx.machine.step.rows_of[s])  # of the token being chosen
        token = prompt[position] if position < len(prompt) else choose(logits, sequence.request, position)
        ctx.operands["out"][s] = token
        ctx.machine.step.logprob[s] = log_softmax_at(logits, token)


@dataclass(frozen=True)
class Advance(Operator):
    """Record the sampled tokens, retire finished sequences, and choose the rows of the next step.

    sampled i32 [batch], tokens i32 [rows]. The only task that ends a step; it triggers START_EVENT.
    """

    sampled: str
    tokens: str

    kind: ClassVar[str] = "advance"
    axis: ClassVar[Axis] = Axis.ONCE
    output_slot: ClassVar[str] = "tokens"

    def operands(self, graph: Graph) -> tuple[Operand, ...]:
        """Sizes follow the runtime."""
        return (
            Operand("sampled", self.sampled, Layout.SEQUENCES, DType.I32, (graph.runtime.batch,)),
            Operand("tokens", self.tokens, Layout.ROWS, DType.I32, (graph.runtime.rows,)),
        )

    def reads(self, tiles: Tiles, graph: Graph) -> list[Access]:
        """All sampled tokens."""
        return [sequence_entries(graph, self.sampled)]

    def writes(self, tiles: Tiles, graph: Graph) -> Access:
        """All tokens of the next step."""
        return token_rows(graph, self.tokens)

    def cost(self, tiles: Tiles, graph: Graph) -> IntArray:
        """The sampled tokens."""
        return np.full(len(tiles), graph.runtime.batch * DType.I32.itemsize, dtype=np.int64)

    @staticmethod
    def evaluate(ctx: Context) -> None:
        """Record, retire, and make the next step."""
        step = ctx.machine.step
        for s, sequence in enumerate(ctx.machine.sequences):
            if sequence.finish is not Finish.RUNNING:
                continue
            sequence.position += int(step.rows_of[s])
            if step.sample_row[s] < 0:
                continue
            sequence.logprobs[sequence.position] = float(step.logprob[s])
            if sequence.in_prompt:
                continue
            token = int(ctx.operands["sampled"][s])
            sequence.tokens.append(token)
            if token in sequence.request.stop:
                sequence.finish = Finish.STOP_TOKEN
            elif len(sequence.tokens) >= sequence.request.max_new_tokens:
                sequence.finish = Finish.LENGTH
        ctx.machine.step = next_step(ctx.machine.sequences, len(step.rows_of), ctx.machine.rows)
        ctx.operands["tokens"][: ctx.machine.step.row_count] = ctx.machine.step.tokens
