"""Token embedding: one row of a table per token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgen.ir.operator import Operator


@dataclass(frozen=True)
class Embedding(Operator):
    """out[r, :] = table[tokens[r], :]. tokens i32 [rows], table bf16 [vocab, hidden], out f32 [rows, hidden]."""

    tokens: str
    table: str
    out: str

    kind: ClassVar[str] = "embedding"
