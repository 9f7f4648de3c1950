"""safetensors files: one, or several behind an index.

The format is a u64 header length, a JSON header with dtype, shape and byte range of each tensor, and the
data. Tensors are memory-mapped.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kgen.weights.checkpoint import Array, Checkpoint, SourceTensor, WeightsError

_DTYPES: dict[str, Any] = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
_MAX_HEADER = 100_000_000  # the limit of the reference implementation


@dataclass(frozen=True, slots=True)
class _Entry:
    """One tensor of a header; bytes [begin, end) of the data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_safetensors(path: Path) -> Checkpoint:
    """Open one .safetensors file. Raises WeightsError when it is damaged or truncated."""
    return Checkpoint(path, _tensors(path))


def read_index(path: Path) -> Checkpoint:
    """Open the shards that a model.safetensors.index.json names. Raises WeightsError for what is missing."""
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        shards = sorted(set(weight_map.values()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WeightsError(f"{path}: not a safetensors index: {error!r}") from error
    missing = [s for s in shards if not (path.parent / s).is_file()]
    if missing:
        raise WeightsError(f"{path}: shards are missing: {', '.join(missing)}")
    files = {shard: _tensors(path.parent / shard) for shard in shards}
    lost = [f"{name} (in {shard})" for name, shard in weight_map.items() if name not in files[shard]]
    if lost:
        raise WeightsError(f"{path}: tensors that the index names are not in their shards: {', '.join(lost)}")
    return Checkpoint(path, {name: files[shard][name] for name, shard in weight_map.items()})


def _tensors(path: Path) -> dict[str, SourceTensor]:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(_MAX_HEADER, size - 8):
            raise WeightsError(f"{path}: not a safetensors file, or truncated in its header")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            entries = [_entry(name, fields) for name, fields in header.items()]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise WeightsError(f"{path}: damaged safetensors header: {error!r}") from error
    base = 8 + length
    tensors = {}
    for e in entries:
        if base + e.end > size:
            raise WeightsError(f"{path}: truncated: {e.name} ends at byte {base + e.end} of {size}")
        count = e.end - e.begin
        if e.dtype in _DTYPES and count != math.prod(e.shape) * np.dtype(_DTYPES[e.dtype]).itemsize:
            raise WeightsError(f"{path}: {e.name} has {count} bytes, not those of {e.dtype} {e.shape}")
        tensors[e.name] = SourceTensor(e.shape, partial(_read, path, e, base))
    return tensors


def _entry(name: str, fields: dict[str, Any]) -> _Entry:
    begin, end = fields["data_offsets"]
    return _Entry(name, fields["dtype"], tuple(fields["shape"]), begin, end)


def _read(path: Path, entry: _Entry, base: int, begin: int, end: int) -> Array:
    if entry.dtype not in _DTYPES:
        raise WeightsError(f"{path}: {entry.name} has dtype {entry.dtype}; F32, F16 and BF16 can be packed")
    dtype = np.dtype(_DTYPES[entry.dtype])
    tail = entry.shape[1:]
    row = math.prod(tail) * dtype.itemsize
    shape = (end - begin, *tail)
    if end == begin or row == 0:
        return np.empty(shape, dtype)
    offset = base + entry.begin + begin * row
    data: Array = np.memmap(path, np.uint8, "r", offset, ((end - begin) * row,))
    rows: Array = data.view(dtype).reshape(shape)
    return rows
