"""Pack a checkpoint into the weight file of a generated project."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from kgen.weights.checkpoint import Array, Checkpoint, WeightsError
from kgen.weights.files import write_whole
from kgen.weights.layout import HEADER_BYTES, Header, PackedTensor, PackLayout, is_packed, read_layout
from kgen.weights.match import check_checkpoint
from kgen.weights.open import open_checkpoint
from kgen.weights.tokenizer import save_tokenizer

_CHUNK_ELEMENTS = 4 << 20  # held in memory at a time, once as read and once as written

Progress = Callable[[int, int], None]  # bytes written so far, bytes in all


@dataclass(frozen=True, slots=True)
class PackReport:
    """What was packed: the file, its size in bytes, tensors written, and checkpoint tensors left out.

    `tokenizer` is the file beside it with the checkpoint's tokenizer, None when it has none that can be used.
    """

    out: Path
    bytes: int
    tensors: int
    ignored: tuple[str, ...]
    tokenizer: Path | None


def pack_weights(project: Path, weights: Path, out: Path, *, progress: Progress | None = None) -> PackReport:
    """Write `weights` (safetensors or GGUF) to `out` in the layout of `project`.

    Values are rounded to nearest even. `out` appears whole or not at all; the tokenizer goes beside it.
    Raises WeightsError naming every tensor that is missing, extra or misshapen, or saying why the files
    cannot be read or written, or that `out` is some other file.
    """
    layout = read_layout(project)
    checkpoint = open_checkpoint(weights)
    if out.is_file() and out.stat().st_size > 0 and not is_packed(out):
        raise WeightsError(f"{out}: exists and is not a packed weight file, so it is not overwritten")
    ignored = check_checkpoint(checkpoint, layout)
    write_whole(out, lambda file: _write(file, checkpoint, layout, progress))
    tokenizer = save_tokenizer(checkpoint.path, out)
    return PackReport(out, HEADER_BYTES + layout.data_bytes, len(layout.tensors), ignored, tokenizer)


def _write(file: BinaryIO, checkpoint: Checkpoint, layout: PackLayout, progress: Progress | None) -> None:
    file.write(Header(layout.name, layout.digest, layout.data_bytes).encode())
    file.truncate(HEADER_BYTES + layout.data_bytes)  # gaps between tensors read as zero
    done = 0
    for tensor in layout.tensors:
        file.seek(HEADER_BYTES + tensor.offset)
        for block in packed_blocks(checkpoint, tensor):
            file.write(block.view(np.uint8).data)
            done += block.nbytes
            if progress is not None:
                progress(done, layout.data_bytes)


def packed_blocks(checkpoint: Checkpoint, tensor: PackedTensor) -> Iterator[Array]:
    """The tensor as consecutive blocks [rows, stride], or [1, stride] for a vector, padding zero.

    Raises WeightsError for a value that is NaN or infinite, which no trained weight is.
    """
    if len(tensor.shape) == 1:
        row = np.zeros((1, tensor.stride), tensor.dtype)
        begin = 0
        for name in tensor.sources:
            values = checkpoint.tensors[name].read(0, checkpoint.tensors[name].rows)
            row[0, begin : begin + len(values)] = _finite(values, name, checkpoint)
            begin += len(values)
        yield row
        return
    step = max(1, _CHUNK_ELEMENTS // tensor.stride)
    for name in tensor.sources:
        source = checkpoint.tensors[name]
        for begin in range(0, source.rows, step):
            end = min(begin + step, source.rows)
            block = np.zeros((end - begin, tensor.stride), tensor.dtype)
            block[:, : tensor.cols] = _finite(source.read(begin, end), name, checkpoint)
            yield block


def _finite(values: Array, name: str, checkpoint: Checkpoint) -> Array:
    """The values, unless some are damaged; those of the whole tensor are counted then."""
    if np.isfinite(values).all():
        return values
    source = checkpoint.tensors[name]
    step = max(1, _CHUNK_ELEMENTS * source.rows // max(1, math.prod(source.shape)))
    count = sum(
        int(np.count_nonzero(~np.isfinite(source.read(begin, min(begin + step, source.rows)))))
        for begin in range(0, source.rows, step)
    )
    raise WeightsError(
        f"{checkpoint.path}: {name}: {count} of {math.prod(source.shape)} values are NaN or infinite, "
        "so the file is damaged"
    )
