"""Sets of small numbers as Python integers: bit i says that i is in the set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def members(bits: int) -> npt.NDArray[np.int64]:
    """The numbers in a set, ascending."""
    if not bits:
        return np.empty(0, dtype=np.int64)
    low = (bits & -bits).bit_length() - 1 & ~7  # leave out the empty bytes below
    shifted = bits >> low
    raw = np.frombuffer(shifted.to_bytes((shifted.bit_length() + 7) // 8, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(raw, bitorder="little")) + low
