"""safetensors files: one, or several with or without an index."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from kgen.weights.checkpoint import Array, Checkpoint, SourceTensor, WeightsError

_DTYPES = ("F32", "F16", "BF16")


def read_safetensors(path: Path) -> Checkpoint:
    """Open one .safetensors file. Raises WeightsError when it is damaged or truncated."""
    return Checkpoint(path, _tensors(path))


def read_index(path: Path) -> Checkpoint:
    """Open the shards that a model.safetensors.index.json names. Raises WeightsError for what is missing."""
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        shards = sorted(set(weight_map.values()))
        # An index comes from elsewhere: it must not name files beyond its own folder.
        outside = [s for s in shards if not s or "\0" in s or Path(s).name != s]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WeightsError(f"{path}: not a safetensors index: {error!r}") from error
    if outside:
        listed = ", ".join(map(repr, outside))
        raise WeightsError(f"{path}: shards are files beside their index, not {listed}")
    missing = [s for s in shards if not (path.parent / s).is_file()]
    if missing:
        raise WeightsError(f"{path}: shards are missing: {', '.join(missing)}")
    files = {shard: _tensors(path.parent / shard) for shard in shards}
    lost = [f"{name} (in {shard})" for name, shard in weight_map.items() if name not in files[shard]]
    if lost:
        raise WeightsError(f"{path}: tensors that the index names are not in their shards: {', '.join(lost)}")
    return Checkpoint(path, {name: files[shard][name] for name, shard in weight_map.items()})


def read_shards(folder: Path, shards: list[Path]) -> Checkpoint:
    """The files of a folder as one checkpoint. Raises WeightsError for a tensor that is in two of them."""
    tensors: dict[str, SourceTensor] = {}
    home: dict[str, str] = {}
    twice = []
    for shard in shards:
        for name, tensor in _tensors(shard).items():
            if name in home:
                twice.append(f"{name} (in {home[name]} and {shard.name})")
            home.setdefault(name, shard.name)
            tensors.setdefault(name, tensor)
    if twice:
        more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
        raise WeightsError(f"{folder}: tensors that are there twice: {', '.join(twice[:3])}{more}")
    return Checkpoint(folder, tensors)


def _tensors(path: Path) -> dict[str, SourceTensor]:
    # The tensors hold the open file, which is mapped: nothing is read before it is asked for.
    try:
        file: Any = safe_open(path, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{path}: not a safetensors file, or truncated or damaged: {error}") from error
    tensors = {}
    for name in sorted(file.keys()):
        part = file.get_slice(name)
        shape, dtype = tuple(part.get_shape()), part.get_dtype()
        tensors[name] = SourceTensor(shape, partial(_read, f"{path}: {name}", shape, dtype, part))
    return tensors


def _read(where: str, shape: tuple[int, ...], dtype: str, part: Any, begin: int, end: int) -> Array:
    if dtype not in _DTYPES:
        raise WeightsError(f"{where} has dtype {dtype}; F32, F16 and BF16 can be packed")
    if begin == end:
        return np.empty((0, *shape[1:]), np.float32)
    rows: Array = part[begin:end] if shape else part[...].reshape(1)
    return rows
