"""Sets of small numbers as Python integers: bit i says that i is in the set."""

from __future__ import annotations

from collections.abc import Iterable

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


def bitset(numbers: Iterable[int]) -> int:
    """The set of these numbers."""
    values = np.fromiter(numbers, dtype=np.int64)
    if not len(values):
        return 0
    flags = np.zeros(int(values.max()) + 1, dtype=np.bool_)
    flags[values] = True
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")
