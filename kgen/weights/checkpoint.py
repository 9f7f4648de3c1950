"""What a checkpoint looks like to the packer, and how a path becomes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_KINDS = ".safetensors, .safetensors.index.json or .gguf"


class WeightsError(Exception):
    """A checkpoint or packed file that cannot be used; the message is complete and meant for the user."""


@dataclass(frozen=True)
class SourceTensor:
    """One tensor of a checkpoint, read by rows so that it never has to be in memory as a whole.

    `read(begin, end)` returns elements [begin, end) of axis 0 as float32, float16 or bfloat16.
    """

    shape: tuple[int, ...]
    read: Callable[[int, int], Array]

    @property
    def rows(self) -> int:
        """Extent of axis 0; a scalar has one row."""
        return self.shape[0] if self.shape else 1


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by their Hugging Face names, and what the file says about the model.

    `facts` holds the settings that the file states, under the names of `PackLayout.settings`; the packer
    refuses a file that disagrees with the project. `rope_factors` are per-frequency divisors, if stored.
    """

    path: Path
    tensors: Mapping[str, SourceTensor]
    facts: Mapping[str, float] = field(default_factory=dict)
    rope_factors: NDArray[np.float32] | None = None


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a .gguf file, a .safetensors file, a sharded index or a directory that holds one of them.

    Raises WeightsError when there is nothing to read there or the files are damaged.
    """
    from kgen.weights.gguf_reader import read_gguf
    from kgen.weights.safetensors_reader import read_index, read_safetensors

    file = locate(path)
    if file.suffix == ".gguf":
        return read_gguf(file)
    if file.suffix == ".json":
        return read_index(file)
    return read_safetensors(file)


def locate(path: Path) -> Path:
    """The one weight file or index that `path` stands for."""
    if path.is_dir():
        index = path / "model.safetensors.index.json"
        if index.is_file():
            return index
        single = path / "model.safetensors"
        if single.is_file():
            return single
        found = sorted([*path.glob("*.safetensors"), *path.glob("*.gguf")])
        if len(found) == 1:
            return found[0]
        what = "several weight files: " + ", ".join(f.name for f in found) if found else "no weights here"
        raise WeightsError(f"{path}: {what}; name a {_KINDS} file")
    if not path.is_file():
        raise WeightsError(f"{path}: no such file or directory")
    if path.name.endswith((".gguf", ".safetensors", ".safetensors.index.json")):
        return path
    raise WeightsError(f"{path}: expected a {_KINDS} file")
