"""The model in PyTorch, written from the meaning of its operators: one whole sequence at a time, no cache.

tests/reference.py is the same in NumPy, for models small enough.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from packed import HEADER_BYTES
from reference import rope_frequencies

Tensor = torch.Tensor


class TorchReference:
    """Runs the operators of model.json on the weights of a packed file."""

    def __init__(self, model: dict[str, Any], path: Path, device: str) -> None:
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        self.ops = model["ops"]
        self.device = device
        data = np.memmap(path, dtype=np.int16, mode="r", offset=HEADER_BYTES)
        self.weights = {}
        for tensor in (t for t in model["tensors"] if t["space"] == "weight"):
            shape, stride = tensor["shape"], tensor["stride"]
            rows = shape[0] if len(shape) > 1 else 1
            first = tensor["offset"] // 2
            bits = torch.from_numpy(np.array(data[first : first + rows * stride])).to(device)
            values = bits.view(torch.bfloat16).reshape(rows, stride)[:, : shape[-1]]
            self.weights[tensor["name"]] = values.reshape(shape)

    def last_logits(self, tokens: list[int], dtype: torch.dtype) -> np.ndarray:
        """Logits f32 [vocab] after the last token, everything stored in `dtype`."""
        ids = torch.tensor(tokens, device=self.device)
        values: dict[str, Tensor] = {}
        with torch.no_grad():
            for op in self.ops:
                inputs = {
                    slot: self.weights[name].to(dtype) if name in self.weights else values.get(name)
                    for slot, name in op["operands"].items()
                }
                if op["kind"] == "logits":
                    return F.linear(inputs["x"][-1], inputs["weight"]).float().cpu().numpy()
                run = getattr(self, "_" + op["kind"])
                values[op["operands"]["out"]] = run(op["constants"], ids, inputs).to(dtype)
        raise AssertionError("the model has no logits operator")

    @staticmethod
    def _embedding(_: Any, ids: Tensor, t: dict[str, Tensor]) -> Tensor:
        return t["table"][ids]

    @staticmethod
    def _rmsnorm(c: dict[str, Any], _: Tensor, t: dict[str, Tensor]) -> Tensor:
        return rms_norm(t["x"], t["weight"], c["eps"])

    @staticmethod
    def _linear(c: dict[str, Any], _: Tensor, t: dict[str, Tensor]) -> Tensor:
        out = F.linear(t["x"], t["weight"], t["bias"] if c["has_bias"] else None)
        return out + t["residual"] if c["has_residual"] else out

    @staticmethod
    def _swiglu(_: Any, __: Tensor, t: dict[str, Tensor]) -> Tensor:
        return F.silu(F.linear(t["x"], t["gate"])) * F.linear(t["x"], t["up"])

    @staticmethod
    def _silu_mul(_: Any, __: Tensor, t: dict[str, Tensor]) -> Tensor:
        return F.silu(t["gate"]) * t["up"]

    @staticmethod
    def _add(_: Any, __: Tensor, t: dict[str, Tensor]) -> Tensor:
        return t["a"] + t["b"]

    @staticmethod
    def _attention(c: dict[str, Any], ids: Tensor, t: dict[str, Tensor]) -> Tensor:
        heads, kv_heads, head, n = c["heads"], c["kv_heads"], c["head"], len(ids)
        q, k, v = t["qkv"].view(n, -1, head).split([heads, kv_heads, kv_heads], 1)
        if c["has_q_norm"]:
            q = rms_norm(q, t["q_norm"], c["eps"])
        if c["has_k_norm"]:
            k = rms_norm(k, t["k_norm"], c["eps"])
        if c["has_rope"]:
            angles = np.arange(n)[:, None] * rope_frequencies(c)[None, :]
            q, k = rotate(q, angles), rotate(k, angles)
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=c["scale"], enable_gqa=True)
        return out[0].transpose(0, 1).reshape(n, heads * head)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last axis, the mean in fp32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight


def rotate(x: Tensor, angles: np.ndarray) -> Tensor:
    """Rotate the pairs (i, i + head / 2) of x [rows, heads, head] by angles [rows, head / 2]."""
    cos, sin = (
        torch.from_numpy(f(angles)).to(device=x.device, dtype=x.dtype)[:, None] for f in (np.cos, np.sin)
    )
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
