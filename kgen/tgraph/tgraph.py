"""The tGraph: tasks, and the events that order them.

Every pass takes a TGraph and returns a new one with more of it filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

# Event 0 opens a step: the last task of a step triggers it for the next one.
START_EVENT = 0

EMPTY = -1  # operator of a task that normalization added
NONE = -1  # no event, no worker slot


@dataclass(frozen=True, slots=True)
class Tasks:
    """All tasks as columns, int64 [tasks]; task i is the i-th row.

    `op` is the operator's number or EMPTY; [begin, end) are units of its main axis and `index` one of its
    second. `origin` is the number the task had after decompose, -1 for an empty task.
    """

    op: IntArray
    begin: IntArray
    end: IntArray
    index: IntArray
    origin: IntArray

    def __len__(self) -> int:
        return len(self.op)

    def take(self, order: IntArray) -> Tasks:
        """The same tasks in another order."""
        return Tasks(*(getattr(self, column)[order] for column in Tasks.__slots__))

    def with_empty(self, count: int) -> Tasks:
        """These tasks and `count` empty ones behind them."""

        def extended(column: IntArray, value: int) -> IntArray:
            return np.concatenate([column, np.full(count, value, np.int64)])

        return Tasks(
            extended(self.op, EMPTY),
            extended(self.begin, 0),
            extended(self.end, 0),
            extended(self.index, 0),
            extended(self.origin, -1),
        )


@dataclass(frozen=True, slots=True)
class PairBlock:
    """Which tasks of one operator must come before which of another; bool [its tasks, the other's tasks].

    `first_producer` and `first_consumer` are the numbers of the first task of each operator after decompose.
    """

    producer_op: int
    consumer_op: int
    first_producer: int
    first_consumer: int
    mask: BoolArray


@dataclass(frozen=True, slots=True)
class Event:
    """Opens its consumers once every producer is done. Tasks are numbers, ascending.

    START_EVENT's producer is the last task of the step before, so it orders nothing within a step.
    """

    producers: tuple[int, ...]
    consumers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where tasks run: `jit` bool [tasks], `slot` int64 [tasks] (NONE for JIT), and the queue's size."""

    jit: BoolArray
    slot: IntArray
    queue_capacity: int


@dataclass(frozen=True, slots=True)
class TGraph:
    """Tasks and what orders them.

    op_names: for messages and reports. pairs: the order that the regions ask for, never changed again.
    events: none before fuse_events; from then on events[0] is START_EVENT. last: the task that ends a step,
    NONE if there is none (only in tests of single passes).
    """

    op_names: tuple[str, ...]
    tasks: Tasks
    pairs: tuple[PairBlock, ...] = ()
    events: tuple[Event, ...] = ()
    last: int = NONE
    placement: Placement | None = None

    def describe(self, task: int) -> str:
        """A task as messages name it: `layers.0.qkv[64:96]`, with `/2` for unit 2 of the second axis."""
        t = self.tasks
        if t.op[task] == EMPTY:
            return f"empty task {task}"
        part = f"/{t.index[task]}" if t.index[task] else ""
        return f"{self.op_names[t.op[task]]}[{t.begin[task]}:{t.end[task]}]{part}"

    def waits(self) -> list[list[int]]:
        """The events each task waits for."""
        result: list[list[int]] = [[] for _ in range(len(self.tasks))]
        for e, event in enumerate(self.events):
            for task in event.consumers:
                result[task].append(e)
        return result

    def triggers(self) -> list[list[int]]:
        """The events each task triggers."""
        result: list[list[int]] = [[] for _ in range(len(self.tasks))]
        for e, event in enumerate(self.events):
            for task in event.producers:
                result[task].append(e)
        return result


def single(lists: Sequence[Sequence[int]]) -> IntArray:
    """The only element of each list, NONE where it is empty. For graphs that normalize has seen."""
    return np.array([entry[0] if entry else NONE for entry in lists], dtype=np.int64)
