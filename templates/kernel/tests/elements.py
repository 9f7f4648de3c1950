"""Matrices of 16-bit elements as NumPy has them: their bits, as uint16."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from project import KERNEL

Bits = npt.NDArray[np.uint16]
Reals = npt.NDArray[np.float64]

IS_BF16 = KERNEL["dtype"] == "bf16"
# Half of the distance to the next number, relative: what rounding to nearest may change.
ROUNDING = 2.0**-8 if IS_BF16 else 2.0**-11
SMALLEST = 2.0**-134 if IS_BF16 else 2.0**-25  # the same where numbers are no longer normal
NAN = 0x7FFF  # what outputs hold before a run


def to_bits(values: npt.ArrayLike) -> Bits:
    """Rounded to nearest, ties to even."""
    singles = np.ascontiguousarray(values, dtype=np.float32)
    if not IS_BF16:
        return singles.astype(np.float16).view(np.uint16)
    words = singles.view(np.uint32)
    return ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype(np.uint16)


def to_reals(bits: Bits) -> Reals:
    """The values that the bits stand for."""
    if not IS_BF16:
        return np.ascontiguousarray(bits).view(np.float16).astype(np.float64)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
