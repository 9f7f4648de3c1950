"""Linear layers: plain, with bias or residual, fused SwiGLU, and the logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgen.ir.operator import Operator


@dataclass(frozen=True)
class Linear(Operator):
    """out = x @ weight.T (+ bias) (+ residual). x bf16 [rows, k], weight bf16 [n, k], bias bf16 [n], out f32 [rows, n].

    residual f32 [rows, n] may be out itself.
    """

    x: str
    weight: str
    out: str
    bias: str | None = None
    residual: str | None = None

    kind: ClassVar[str] = "linear"


@dataclass(frozen=True)
class SwiGlu(Operator):
    """out = silu(x @ gate.T) * (x @ up.T). x bf16 [rows, k], gate and up bf16 [n, k], out bf16 [rows, n]."""

    x: str
    gate: str
    up: str
    out: str

    kind: ClassVar[str] = "swiglu"


@dataclass(frozen=True)
class Logits(Operator):
    """out[s, :] = x[r, :] @ weight.T for the last row r of each sequence s that samples in this step.

    x bf16 [rows, k], weight bf16 [vocab, k], out f32 [batch, vocab].
    """

    x: str
    weight: str
    out: str

    kind: ClassVar[str] = "logits"
