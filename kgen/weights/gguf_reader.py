"""GGUF files of the architectures llama, qwen2 and qwen3, dequantized row by row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray

from kgen.weights.checkpoint import Array, Checkpoint, SourceTensor, WeightsError
from kgen.weights.gguf_names import hf_name

_TYPES = (Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1)
_ARCHITECTURES = ("llama", "qwen2", "qwen3")
_QUERY_OR_KEY = re.compile(r"model\.layers\.\d+\.self_attn\.([qk])_proj\.(weight|bias)")


def open_gguf(path: Path) -> GGUFReader:
    """The file's reader, kept while the file stays as it is: parsing a vocabulary takes seconds.

    Raises WeightsError for a damaged file.
    """
    try:
        status = path.stat()
        return _open(path, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))
    except (ValueError, KeyError, IndexError, OSError) as error:
        raise WeightsError(f"{path}: not a GGUF file, or damaged: {error}") from error


@lru_cache(maxsize=2)
def _open(path: Path, version: tuple[int, ...]) -> GGUFReader:
    """`version` is part of the key only: a file that has changed is read again."""
    return GGUFReader(path)


def field(reader: GGUFReader, key: str, default: Any = None) -> Any:
    """A metadata value as a Python object, or `default`. Raises WeightsError when it cannot be read."""
    entry = reader.get_field(key)
    try:
        return default if entry is None else entry.contents()
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise WeightsError(f"the GGUF file's {key} is damaged: {error}") from error


def _number(path: Path, reader: GGUFReader, key: str, default: Any = None) -> Any:
    value = field(reader, key, default)
    if value is not default and not isinstance(value, int | float):
        raise WeightsError(f"{path}: {key} is {value!r}, not a number")
    return value


@dataclass(frozen=True)
class _Heads:
    """Attention sizes that the metadata state."""

    heads: int
    kv_heads: int
    head: int


def read_gguf(path: Path) -> Checkpoint:
    """Open a GGUF file. Raises WeightsError for other architectures, split files and other quantizations."""
    reader = open_gguf(path)
    arch = field(reader, "general.architecture")
    if arch not in _ARCHITECTURES:
        raise WeightsError(f"{path}: architecture {arch!r}; expected one of {', '.join(_ARCHITECTURES)}")
    if _number(path, reader, "split.count", 0) > 1:
        raise WeightsError(f"{path}: one part of a split GGUF; join the parts with llama-gguf-split --merge")
    other = sorted({t.tensor_type.name for t in reader.tensors if t.tensor_type not in _TYPES})
    if other:
        accepted = ", ".join(t.name for t in _TYPES)
        raise WeightsError(f"{path}: tensors of type {', '.join(other)}; {accepted} can be packed")

    heads = _heads(path, reader, arch)
    tensors: dict[str, SourceTensor] = {}
    factors: NDArray[np.float32] | None = None
    for entry in reader.tensors:
        shape = tuple(int(n) for n in reversed(entry.shape))  # GGUF counts from the fastest axis
        read = partial(_rows, entry.data, entry.tensor_type)
        if entry.name == "rope_freqs.weight":
            factors = np.asarray(read(0, shape[0]), np.float32)
            continue
        name = hf_name(entry.name)
        match = _QUERY_OR_KEY.fullmatch(name)
        if arch == "llama" and match:
            count = heads.heads if match[1] == "q" else heads.kv_heads
            if shape[0] != count * heads.head:
                raise WeightsError(
                    f"{path}: {entry.name} has {shape[0]} rows, not {count} heads of {heads.head}"
                )
            read = partial(_unpermuted, read, heads.head)
        tensors[name] = SourceTensor(shape, read)
    facts: dict[str, float] = {"heads": heads.heads, "kv_heads": heads.kv_heads, "head": heads.head}
    for fact, key in (("eps", "attention.layer_norm_rms_epsilon"), ("rope_theta", "rope.freq_base")):
        if (value := _number(path, reader, f"{arch}.{key}")) is not None:
            facts[fact] = float(value)
    return Checkpoint(path, tensors, facts, factors)


def _heads(path: Path, reader: GGUFReader, arch: str) -> _Heads:
    def size(key: str, default: int | None = None) -> int:
        value = field(reader, f"{arch}.{key}", default)
        if not isinstance(value, int) or value < 1:
            raise WeightsError(f"{path}: {arch}.{key} is {'missing' if value is None else repr(value)}")
        return value

    heads, hidden = size("attention.head_count"), size("embedding_length")
    head = size("attention.key_length", hidden // heads)
    rope = size("rope.dimension_count", head)
    if rope != head:
        raise WeightsError(f"{path}: RoPE covers {rope} of the {head} elements of a head, not all of them")
    return _Heads(heads, size("attention.head_count_kv", heads), head)


def _rows(data: NDArray[Any], kind: Type, begin: int, end: int) -> Array:
    if kind is Type.BF16:
        data = data.view(ml_dtypes.bfloat16)
    elif kind not in (Type.F32, Type.F16):
        # A damaged scale makes values that are no numbers, which the packer refuses.
        with np.errstate(invalid="ignore", over="ignore"):
            if data.ndim == 1:
                return dequantize(data, kind)[begin:end]
            return dequantize(data[begin:end], kind)
    return data[begin:end]


def _unpermuted(read: Any, head: int, begin: int, end: int) -> Array:
    """Rows of a llama q or k projection in Hugging Face order.

    The converter interleaves the halves of each head, since llama.cpp rotates neighbours: its row 2 i + j of
    a head is row i + j * head / 2 of the checkpoint.
    """
    first, last = begin // head * head, -(-end // head) * head  # whole heads
    rows: Array = read(first, last)
    order = np.arange(last - first).reshape(-1, head // 2, 2).swapaxes(1, 2).reshape(-1)
    return rows[order[begin - first : end - first]]
