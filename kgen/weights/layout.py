"""The packed weight file: where each tensor lies, as model.json of a project says, and the file's header."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from kgen.paths import no_model
from kgen.weights.checkpoint import WeightsError

MAGIC = b"KGENWTS1"
HEADER_BYTES = 4096
# magic, header bytes, zero, data bytes, digest, plan name
_HEADER = struct.Struct("<8sIIQ32s64s")
_DTYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f32": np.float32}


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """A weight in the packed file: `rows` rows of `stride` elements from byte `offset` of the data on."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stride: int
    offset: int
    sources: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Rows when seen as a matrix; a vector is one row."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def cols(self) -> int:
        """Elements of one row without its padding."""
        return self.shape[-1]


@dataclass(frozen=True)
class PackLayout:
    """What a project's model.json says about its weights.

    `settings` are constants of the model that a checkpoint may state too: heads, kv_heads, head, eps and the
    rope_* constants of the attention operators. A setting that operators disagree on is left out.
    """

    name: str
    digest: str  # 64 hex digits
    data_bytes: int
    tensors: tuple[PackedTensor, ...]
    settings: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Header:
    """What the first 4096 bytes of a packed file say."""

    name: str
    digest: str
    data_bytes: int

    def encode(self) -> bytes:
        """The header as bytes, zero from offset 120 on."""
        fields = (MAGIC, HEADER_BYTES, 0, self.data_bytes, bytes.fromhex(self.digest), self.name.encode())
        return _HEADER.pack(*fields).ljust(HEADER_BYTES, b"\0")


def read_layout(project: Path) -> PackLayout:
    """Read model.json of a generated project. Raises WeightsError when it is not there or not understood."""
    file = project / "model.json"
    try:
        model = json.loads(file.read_text(encoding="utf-8"))
        if model["format"] != 1:
            raise WeightsError(f"{file}: format {model['format']!r}; this kgen reads format 1")
        tensors = tuple(
            PackedTensor(
                t["name"],
                np.dtype(_DTYPES[t["dtype"]]),
                tuple(t["shape"]),
                t["stride"],
                t["offset"],
                tuple(t["sources"]),
            )
            for t in model["tensors"]
            if t["space"] == "weight"
        )
        settings = _settings(model["ops"])
        layout = PackLayout(model["name"], model["digest"], model["weight_bytes"], tensors, settings)
        _check(layout)
        return layout
    except FileNotFoundError as error:
        raise WeightsError(no_model(project)) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise WeightsError(f"{file}: not the model.json of a generated project: {error!r}") from error


def _check(layout: PackLayout) -> None:
    """Raise ValueError or another error of a wrong type unless the file that a layout describes can exist."""
    Header(layout.name, layout.digest, layout.data_bytes).encode()
    if len(layout.digest) != 64:
        raise ValueError(f"a digest of {len(layout.digest)} digits")
    for t in layout.tensors:
        if len(t.shape) not in (1, 2) or min(t.shape) < 1 or t.stride < t.cols:
            raise ValueError(f"{t.name} is {list(t.shape)} with a stride of {t.stride}")
        if not 0 <= t.offset <= layout.data_bytes - t.rows * t.stride * t.dtype.itemsize:
            raise ValueError(f"{t.name} lies outside of the weights")


def _settings(ops: list[dict[str, Any]]) -> dict[str, float]:
    seen: dict[str, set[float]] = {}
    for op in ops:
        constants = op["constants"]
        if op["kind"] == "attention":
            for key, value in constants.items():
                rotary = key.startswith("rope_") and constants["has_rope"]
                if rotary or key in ("heads", "kv_heads", "head"):
                    seen.setdefault(key, set()).add(value)
        elif op["kind"] == "rmsnorm":
            seen.setdefault("eps", set()).add(constants["eps"])
    return {key: values.pop() for key, values in seen.items() if len(values) == 1}


def is_packed(path: Path) -> bool:
    """Whether a file is, or claims to be, a packed weight file."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_header(path: Path) -> Header:
    """Header of a packed file. Raises WeightsError when it is not one or has the wrong length."""
    try:
        with path.open("rb") as file:
            raw = file.read(HEADER_BYTES)
        size = path.stat().st_size
    except OSError as error:
        raise WeightsError(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) < HEADER_BYTES or not raw.startswith(MAGIC):
        raise WeightsError(f"{path}: not a packed weight file")
    _, header_bytes, _, data_bytes, digest, name = _HEADER.unpack_from(raw)
    if header_bytes != HEADER_BYTES or size != HEADER_BYTES + data_bytes:
        raise WeightsError(
            f"{path}: damaged: {size} bytes, not {HEADER_BYTES} + {data_bytes}; pack the weights again"
        )
    return Header(name.rstrip(b"\0").decode(errors="replace"), digest.hex(), data_bytes)


def check_packed(path: Path, layout: PackLayout) -> None:
    """Raise WeightsError unless `path` is a whole file packed for the plan of `layout`."""
    header = read_header(path)
    if (header.digest, header.data_bytes) != (layout.digest, layout.data_bytes):
        raise WeightsError(
            f"{path}: packed for another plan ({header.name}, {header.digest[:12]}); this project is "
            f"{layout.name}, {layout.digest[:12]}: pack the weights again with kgen pack"
        )
