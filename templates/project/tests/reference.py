"""The model in NumPy, written from the meaning of its operators: one whole sequence at a time, no cache.

With rounded=True values are rounded to bf16 where the library stores bf16 (outputs of that type, keys and
values in the cache); otherwise nothing is rounded but the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from packed import from_bf16, to_bf16

Array = np.ndarray


class Reference:
    """Runs the operators of model.json on the weights of a packed file."""

    def __init__(self, model: dict[str, Any], weights: dict[str, Array], *, rounded: bool) -> None:
        self.ops = model["ops"]
        self.dtypes = {t["name"]: t["dtype"] for t in model["tensors"]}
        self.weights = weights
        self.rounded = rounded

    def logits(self, tokens: list[int]) -> Array:
        """Logits f64 [len(tokens), vocab] after each token."""
        ids = np.asarray(tokens)
        values: dict[str, Array] = dict(self.weights)
        for op in self.ops:
            if op["kind"] in ("sample", "advance"):
                continue  # what to do with logits is the caller's business
            run = getattr(self, "_" + op["kind"], None)
            if run is None:
                raise LookupError(f"{op['kind']} has no method _{op['kind']} in {__file__}")
            inputs = {slot: values.get(name) for slot, name in op["operands"].items()}
            result = run(op["constants"], ids, inputs)
            name = op["operands"]["out"]
            values[name] = self._stored(result) if self.dtypes[name] == "bf16" else result
            if op["kind"] == "logits":
                return result
        raise AssertionError("the model has no logits operator")

    def logprobs(self, tokens: list[int]) -> Array:
        """log P(tokens[p] | tokens[:p]) f64 [len(tokens)]; the first is NaN."""
        logits = self.logits(tokens[:-1])
        shifted = logits - logits.max(axis=1, keepdims=True)
        all_logprobs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return np.concatenate([[np.nan], all_logprobs[np.arange(len(tokens) - 1), tokens[1:]]])

    def _stored(self, values: Array) -> Array:
        return from_bf16(to_bf16(values)).astype(np.float64) if self.rounded else values

    @staticmethod
    def _embedding(_: Any, ids: Array, t: dict[str, Array]) -> Array:
        return t["table"][ids].astype(np.float64)

    @staticmethod
    def _rmsnorm(c: dict[str, Any], _: Array, t: dict[str, Array]) -> Array:
        return rms_norm(t["x"], t["weight"], c["eps"])

    @staticmethod
    def _linear(c: dict[str, Any], _: Array, t: dict[str, Array]) -> Array:
        out = t["x"] @ t["weight"].T.astype(np.float64)
        if c["has_bias"]:
            out = out + t["bias"]
        if c["has_residual"]:
            out = out + t["residual"]
        return out

    @staticmethod
    def _swiglu(_: Any, __: Array, t: dict[str, Array]) -> Array:
        return silu(t["x"] @ t["gate"].T.astype(np.float64)) * (t["x"] @ t["up"].T.astype(np.float64))

    @staticmethod
    def _silu_mul(_: Any, __: Array, t: dict[str, Array]) -> Array:
        return silu(t["gate"]) * t["up"]

    @staticmethod
    def _add(_: Any, __: Array, t: dict[str, Array]) -> Array:
        return t["a"] + t["b"]

    @staticmethod
    def _logits(_: Any, __: Array, t: dict[str, Array]) -> Array:
        return t["x"] @ t["weight"].T.astype(np.float64)

    def _attention(self, c: dict[str, Any], ids: Array, t: dict[str, Array]) -> Array:
        heads, kv_heads, head = c["heads"], c["kv_heads"], c["head"]
        n = len(ids)
        q, k, v = np.split(t["qkv"].reshape(n, -1, head), [heads, heads + kv_heads], axis=1)
        if c["has_q_norm"]:
            q = rms_norm(q, t["q_norm"], c["eps"])
        if c["has_k_norm"]:
            k = rms_norm(k, t["k_norm"], c["eps"])
        if c["has_rope"]:
            angles = np.arange(n)[:, None] * rope_frequencies(c)[None, :]
            q, k = rotate(q, angles), rotate(k, angles)
        k, v = self._stored(k), self._stored(v)
        group = heads // kv_heads
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) * c["scale"]
        scores = np.where(np.tril(np.ones((n, n), dtype=bool)), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        return np.einsum("hqk,khd->qhd", weights, v).reshape(n, heads * head)


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    """x / rms(x) * weight over the last axis."""
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps) * weight


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return x / (1 + np.exp(-x))


def rotate(x: Array, angles: Array) -> Array:
    """Rotate the pairs (i, i + head / 2) of x [rows, heads, head] by angles [rows, head / 2]."""
    cos, sin = np.cos(angles)[:, None, :], np.sin(angles)[:, None, :]
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def rope_frequencies(c: dict[str, Any]) -> Array:
    """Radians per position of each pair, with Llama 3's scaling of low frequencies."""
    head = c["head"]
    frequencies = c["rope_theta"] ** (-np.arange(0, head, 2) / head)
    if c["rope_factor"] == 1:
        return frequencies
    turns = c["rope_original_context"] * frequencies / (2 * np.pi)  # over the original context
    low, high = c["rope_low_freq"], c["rope_high_freq"]
    kept = np.clip((turns - low) / (high - low), 0, 1)  # 1: high frequency, unchanged; 0: low, divided
    return frequencies * (kept + (1 - kept) / c["rope_factor"])
