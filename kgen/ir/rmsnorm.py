"""RMS normalization of token rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgen.ir.operator import Operator


@dataclass(frozen=True)
class RmsNorm(Operator):
    """out = x / sqrt(mean(x^2) + eps) * weight, row by row. x f32 [rows, n], weight bf16 [n], out bf16 [rows, n]."""

    x: str
    weight: str
    out: str
    eps: float

    kind: ClassVar[str] = "rmsnorm"
