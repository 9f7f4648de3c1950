"""Choosing the next token, and preparing the next step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgen.ir.operator import Operator


@dataclass(frozen=True)
class Sample(Operator):
    """out[s] = the token drawn from logits[s, :] for each sequence s that samples in this step.

    Argmax, or temperature / top-k / top-p with a seed; the choice is the request's, at run time.
    logits f32 [batch, vocab], out i32 [batch].
    """

    logits: str
    out: str

    kind: ClassVar[str] = "sample"


@dataclass(frozen=True)
class Advance(Operator):
    """Record the sampled tokens, retire finished sequences, and choose the rows of the next step.

    sampled i32 [batch], tokens i32 [rows]. The only task that ends a step; it triggers START_EVENT.
    """

    sampled: str
    tokens: str

    kind: ClassVar[str] = "advance"
