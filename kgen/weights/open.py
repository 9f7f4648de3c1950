"""From a path to a checkpoint."""

from __future__ import annotations

from pathlib import Path

from kgen.weights.checkpoint import Checkpoint, WeightsError
from kgen.weights.gguf_reader import read_gguf
from kgen.weights.safetensors_reader import read_index, read_safetensors, read_shards

_KINDS = ".safetensors, .safetensors.index.json or .gguf"


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a .gguf file, a .safetensors file, a sharded index or a directory that holds one of them.

    Several .safetensors files in a directory without an index are merged.
    Raises WeightsError when there is nothing to read there or the files are damaged.
    """
    file = locate(path)
    if file.is_dir():
        return read_shards(file, shards_of(file))
    if file.suffix == ".gguf":
        return read_gguf(file)
    if file.suffix == ".json":
        return read_index(file)
    return read_safetensors(file)


def locate(path: Path) -> Path:
    """The one weight file or index that `path` stands for; a directory of shards without an index itself."""
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
        if found and found == shards_of(path):
            return path
        what = "several weight files: " + ", ".join(f.name for f in found) if found else "no weights here"
        raise WeightsError(f"{path}: {what}; name a {_KINDS} file")
    if not path.is_file():
        raise WeightsError(f"{path}: no such file or directory")
    if path.name.endswith((".gguf", ".safetensors", ".safetensors.index.json")):
        return path
    raise WeightsError(f"{path}: expected a {_KINDS} file")


def shards_of(folder: Path) -> list[Path]:
    """The .safetensors files of a folder, by name."""
    return sorted(folder.glob("*.safetensors"))
