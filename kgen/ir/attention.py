"""Grouped-query attention over the paged KV cache, with RoPE and optional q/k norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kgen.ir.operator import Operator


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
