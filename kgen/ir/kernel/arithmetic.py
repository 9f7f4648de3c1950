"""How the NumPy meaning of a kernel rounds: not at all, or as the storage of its tensors does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgen.ir.machine import NUMPY_DTYPE, Array
from kgen.ir.tensor import DType

Ranks = list[Array]  # one array for each rank


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Values are float64. `rounded`: they are those that the tensors' dtypes can hold.

    A sum over ranks is rounded once with `deterministic`, in which summands travel as f32; without it they
    are added up in place, where every addition rounds. The order is that of the ranks, one of those that a
    kernel without a fixed order may take.
    """

    rounded: bool = False
    deterministic: bool = True

    def store(self, value: Array, dtype: DType) -> Array:
        """A value as a tensor of this dtype holds it."""
        if not self.rounded:
            return np.asarray(value, dtype=np.float64)
        # Accumulators are f32, so a value is rounded twice on its way into a tensor.
        return value.astype(np.float32).astype(NUMPY_DTYPE[dtype]).astype(np.float64)

    def summand(self, value: Array, dtype: DType) -> Array:
        """A product that is only one rank's part of a sum."""
        return self.store(value, DType.F32 if self.deterministic else dtype)

    def total(self, parts: Ranks, dtype: DType) -> Array:
        """The sum over the ranks, as a tensor of this dtype holds it."""
        result = np.asarray(parts[0], dtype=np.float64)
        for part in parts[1:]:
            result = result + part
            if not self.deterministic:
                result = self.store(result, dtype)
        return self.store(result, dtype)
