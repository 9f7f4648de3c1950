"""Tensors of the operator graph: a name, a shape, a dtype and the memory they live in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Rows of two-dimensional tensors start at multiples of this many elements and the gap is zero, so that a
# task may read whole 64-byte vectors of bf16 whatever the width of the model.
ROW_ALIGN = 32


class DType(StrEnum):
    """Element types. Matrix inputs are bf16 (in kernels also f16), everything that accumulates is f32."""

    BF16 = "bf16"
    F16 = "f16"
    F32 = "f32"
    I32 = "i32"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return 2 if self in (DType.BF16, DType.F16) else 4


class Space(StrEnum):
    """Which allocation holds a tensor."""

    WEIGHT = "weight"  # read-only, from the packed file
    ACTIVATION = "activation"  # the arena, rewritten every step
    KV = "kv"  # the paged cache, addressed through the page table


@dataclass(frozen=True, slots=True)
class Tensor:
    """One buffer. `sources` are the checkpoint tensors stacked along axis 0 to make a weight."""

    name: str
    shape: tuple[int, ...]
    dtype: DType
    space: Space
    sources: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        """Rows when seen as a matrix; a vector is one row."""
        return self.shape[0] if len(self.shape) > 1 else 1

    @property
    def cols(self) -> int:
        """Elements of one row."""
        return self.shape[-1]

    @property
    def stride(self) -> int:
        """Elements from one row to the next, padding included."""
        return -(-self.cols // ROW_ALIGN) * ROW_ALIGN

    @property
    def bytes(self) -> int:
        """Bytes with padding."""
        return self.rows * self.stride * self.dtype.itemsize
