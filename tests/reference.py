"""A straightforward forward pass in NumPy, one sequence at a time, with nothing of the compiler in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tests.graphs import Model

Array = npt.NDArray[Any]
Weights = Mapping[str, Array]


def bf16(x: Array) -> Array:
    """Round to bf16 and back to f32."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def random_weights(graph: Any, seed: int) -> dict[str, Array]:
    """f32 weights that bf16 holds exactly; norms near 1."""
    rng = np.random.default_rng(seed)
    result = {}
    for t in graph.tensors:
        if t.space.value == "weight":
            scale = 0.5 if len(t.shape) > 1 else 0.2
            x = rng.standard_normal(t.shape).astype(np.float32) * np.float32(scale)
            result[t.name] = bf16(x + (1 if "norm" in t.name else 0))
    return result


def norm(x: Array, w: Array, eps: float) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def rope_tables(m: Model, length: int) -> tuple[Array, Array]:
    """cos and sin [length, head], as transformers lays them out."""
    assert m.rope is not None
    inv = 1.0 / m.rope.theta ** (np.arange(0, m.head, 2) / m.head)
    if m.rope.factor != 1:
        old, low, high = m.rope.original_context, m.rope.low_freq_factor, m.rope.high_freq_factor
        scaled = []
        for f in inv:
            wavelength = 2 * np.pi / f
            if wavelength < old / high:
                scaled.append(f)
            elif wavelength > old / low:
                scaled.append(f / m.rope.factor)
            else:
                smooth = (old / wavelength - low) / (high - low)
                scaled.append((1 - smooth) * f / m.rope.factor + smooth * f)
        inv = np.array(scaled)
    angle = np.arange(length)[:, None] * inv[None]
    angle = np.concatenate([angle, angle], -1)
    return np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)


def rotate_half(x: Array) -> Array:
    half = x.shape[-1] // 2
    return np.concatenate([-x[..., half:], x[..., :half]], -1)


def forward(m: Model, w: Weights, tokens: list[int]) -> Array:
    """Logits f32 [tokens, vocab] of one sequence."""
    n = len(tokens)
    x = w["embed"][tokens]
    mask = np.where(np.tril(np.ones((n, n), dtype=bool)), 0, -np.inf)
    for i in range(m.layers):
        p = f"layers.{i}."
        h = bf16(norm(x, w[p + "attn_norm"], m.eps))
        qkv = h @ w[p + "wqkv"].T + (w[p + "bqkv"] if m.bias else 0)
        q, k, v = np.split(qkv, [m.heads * m.head, (m.heads + m.kv_heads) * m.head], axis=1)
        q, k, v = (t.reshape(n, -1, m.head).transpose(1, 0, 2) for t in (q, k, v))
        if m.qk_norm:
            q, k = norm(q, w[p + "q_norm"], m.eps), norm(k, w[p + "k_norm"], m.eps)
        if m.rope:
            cos, sin = rope_tables(m, n)
            q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (np.repeat(bf16(t), m.heads // m.kv_heads, axis=0) for t in (k, v))
        score = q @ k.transpose(0, 2, 1) * m.head**-0.5 + mask
        p_ = np.exp(score - score.max(-1, keepdims=True))
        a = (p_ / p_.sum(-1, keepdims=True)) @ v
        x = x + bf16(a.transpose(1, 0, 2).reshape(n, -1)) @ w[p + "wo"].T
        h = bf16(norm(x, w[p + "ffn_norm"], m.eps))
        g, u = h @ w[p + "wgate"].T, h @ w[p + "wup"].T
        x = x + bf16(g / (1 + np.exp(-g)) * u) @ w[p + "wdown"].T
    head = w["embed"] if m.tied else w["lm_head"]
    return (bf16(norm(x, w["final_norm"], m.eps)) @ head.T).astype(np.float32)
