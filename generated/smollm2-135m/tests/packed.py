"""Random packed weight files for tests, and reading them back as float32."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HEADER_BYTES = 4096
MAGIC = b"KGENWTS1"
Bits = np.ndarray  # uint16: the bits of bf16


def to_bf16(values: np.ndarray) -> np.ndarray:
    """float -> the bits of the nearest bf16 (ties to even), uint16. Values must be finite."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    """The bits of bf16 -> float32, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def header(model: dict[str, Any], *, name: str | None = None, digest: str | None = None) -> bytes:
    """The header of a file for `model`, or for another plan of that name or digest."""
    fields = struct.pack(
        "<8sIIQ32s64s",
        MAGIC,
        HEADER_BYTES,
        0,
        model["weight_bytes"],
        bytes.fromhex(digest or model["digest"]),
        (name or model["name"]).encode(),
    )
    return fields.ljust(HEADER_BYTES, b"\0")


def normal_rows(rows: int, columns: int, stride: int, mean: float, deviation: float, seed: list[int]) -> Bits:
    """Normally distributed bf16 [rows, stride], zero from `columns` on."""
    values = np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)
    padded = np.zeros((rows, stride), dtype=np.uint16)
    padded[:, :columns] = to_bf16(mean + deviation * values)
    return padded


def write_random(
    model: dict[str, Any], path: Path, seed: int = 1, make_rows: Callable[..., Bits] = normal_rows
) -> None:
    """A file of weights that keep activations near 1: norms about 1, matrix rows of length about 1.

    The embedding and the logits matrix get rows of length 4, so that the greedy choice is rarely a near tie.
    make_rows: `normal_rows` or what does the same faster.
    """
    wide = {op["operands"][slot] for op in model["ops"] for slot in ("table", "weight") if _is_wide(op, slot)}
    norms = {op["operands"]["weight"] for op in model["ops"] if op["kind"] == "rmsnorm"}
    norms |= {
        op["operands"][slot] for op in model["ops"] for slot in ("q_norm", "k_norm") if slot in op["operands"]
    }
    with path.open("wb") as file:
        file.write(header(model))
        for tensor in _weights(model):
            shape, stride = tensor["shape"], tensor["stride"]
            mean, deviation = 0.0, (4 if tensor["name"] in wide else 1) / shape[-1] ** 0.5
            if tensor["name"] in norms:
                mean, deviation = 1.0, 0.2
            elif len(shape) == 1:
                deviation = 0.2
            key = [seed, zlib.crc32(tensor["name"].encode())]
            file.seek(HEADER_BYTES + tensor["offset"])
            make_rows(_rows(shape), shape[-1], stride, mean, deviation, key).tofile(file)
        file.truncate(HEADER_BYTES + model["weight_bytes"])


def read_weights(model: dict[str, Any], path: Path) -> dict[str, np.ndarray]:
    """Every weight of a packed file as float32, in its shape."""
    data = np.memmap(path, dtype=np.uint16, mode="r", offset=HEADER_BYTES)
    weights = {}
    for tensor in _weights(model):
        shape, stride = tensor["shape"], tensor["stride"]
        first = tensor["offset"] // 2
        rows = data[first : first + _rows(shape) * stride].reshape(-1, stride)
        weights[tensor["name"]] = from_bf16(rows[:, : shape[-1]]).reshape(shape)
    return weights


def _weights(model: dict[str, Any]) -> list[dict[str, Any]]:
    return [t for t in model["tensors"] if t["space"] == "weight"]


def _rows(shape: list[int]) -> int:
    return shape[0] if len(shape) > 1 else 1


def _is_wide(op: dict[str, Any], slot: str) -> bool:
    return (op["kind"], slot) in {("embedding", "table"), ("logits", "weight")}
