"""Elementwise operators on token rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgen.ir.operator import Operator


@dataclass(frozen=True)
class SiluMul(Operator):
    """out = silu(gate) * up. gate and up f32 [rows, n], out bf16 [rows, n]."""

    gate: str
    up: str
    out: str

    kind: ClassVar[str] = "silu_mul"


@dataclass(frozen=True)
class Add(Operator):
    """out = a + b, all f32 [rows, n]; out may be a or b."""

    a: str
    b: str
    out: str

    kind: ClassVar[str] = "add"
