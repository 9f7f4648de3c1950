"""What a checkpoint looks like to the packer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


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
