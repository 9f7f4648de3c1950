"""Regions of tensors: what a task reads and writes, for one task or for all tasks of an operator at once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
Bound = int | IntArray  # one number for all tasks, or one for each: [tasks]


class Layout(Enum):
    """What the first axis of a tensor counts, which decides how its regions are written."""

    ROWS = "token rows"  # [rows, n], or [rows] for one number a row
    SEQUENCES = "sequences"  # [batch, n], or [batch]
    WEIGHT = "weight"  # read only, so never in conflict


class Axis(Enum):
    """What a task of an operator is a piece of."""

    COLUMNS = "columns of the output"
    ROWS = "token rows"
    SEQUENCES = "sequences"
    ONCE = "one task"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Units [begin, end) of the main axis and unit `index` of the second, one entry for each task."""

    begin: IntArray
    end: IntArray
    index: IntArray

    def __len__(self) -> int:
        return len(self.begin)


class Span(NamedTuple):
    """A half-open interval for every task."""

    low: Bound
    high: Bound


class Box(NamedTuple):
    """A region as a product of three intervals.

    A row of a [rows, n] tensor belongs to some sequence, and to which one is known only at run time. So both
    the row number and the sequence are axes: row r is the box (all sequences, r, all columns) and the rows
    of sequence s are (s, all rows, all columns). Two such boxes overlap, because row r may belong to s.
    """

    sequences: Span
    rows: Span
    columns: Span


class Access(NamedTuple):
    """The boxes, one for each task, that the tasks of an operator touch in one tensor."""

    tensor: str
    box: Box


def overlap(first: Box, second: Box, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Whether a box of the first tasks and one of the second have a common element, bool [first, second]."""
    result = np.ones((1, 1), dtype=np.bool_)
    for a, b in zip(first, second, strict=True):
        a_low, a_high = _column(a.low), _column(a.high)
        result = result & (a_low < np.asarray(b.high)) & (np.asarray(b.low) < a_high)
    return np.broadcast_to(result, shape)


def volume(box: Box) -> Bound:
    """Elements of each box."""
    size: Bound = 1
    for low, high in box:
        size = size * (high - low)
    return size


def _column(bound: Bound) -> IntArray:
    array = np.asarray(bound, dtype=np.int64)
    return array[:, None] if array.ndim else array
