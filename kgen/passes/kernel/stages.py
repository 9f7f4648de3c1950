"""What the tasks of every kernel are made with: boxes, buffers in turns, the graph of all tasks.

Calls repeat with the workspace's buffers in turns, so that the passes find what a call must wait for before
it writes to a buffer that the call before the last has read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kgen.ir.problem import Problem
from kgen.ir.region import Box, Span, overlap
from kgen.passes.errors import CompileError
from kgen.plan.kernel.instance import BUFFERS, Instance, Stage, Task
from kgen.tgraph.tgraph import Tasks, TGraph

CALLS = BUFFERS + 1  # so that each buffer that is used again is seen

Region = tuple[int, int, int, int, int]  # rank, row, rows, column, columns


def turn(buffer: str, call: int) -> str:
    """The one of the buffers that a call uses."""
    return f"{buffer}.{call % BUFFERS}"


def own_part(task: Task) -> Region:
    """What the task is about, in the memory of its rank."""
    return (task.rank, task.row, task.rows, task.column, task.columns)


def box_of(tasks: Sequence[Task], region: Callable[[Task], Region], ranks: int = 1) -> Box:
    """The region of each task as a box: in the memory of its rank, or of so many from there on."""
    rank, row, rows, column, columns = np.array([region(t) for t in tasks], dtype=np.int64).reshape(-1, 5).T
    return Box(Span(rank, rank + ranks), Span(row, row + rows), Span(column, column + columns))


def check_alone(stage: Stage) -> None:
    """Raise CompileError if two tasks of a stage write the same element."""
    box, count = stage.write.box, len(stage.tasks)
    clash = np.argwhere(np.triu(overlap(box, box, (count, count)), 1))
    if len(clash):
        first, second = (str(stage.tasks[i]) for i in clash[0])
        text = f"{first} and {second} write the same elements of `{stage.write.tensor}`"
        raise decompose_error(stage.operator, text)


def decompose_error(operator: str, text: str) -> CompileError:
    """What is wrong with the tasks of an operator."""
    return CompileError("decompose", [Problem(f"{operator}: {text}", operator=operator)])


def task_graph(instance: Instance) -> TGraph:
    """The tasks as a graph: rows of the task as its piece, and its number within the stage."""
    counts = [len(stage.tasks) for stage in instance.stages]
    begin = np.array([task.row for task in instance.tasks], dtype=np.int64)
    return TGraph(
        op_names=tuple(stage.name for stage in instance.stages),
        tasks=Tasks(
            op=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
            begin=begin,
            end=begin + np.array([task.rows for task in instance.tasks], dtype=np.int64),
            index=np.concatenate([np.arange(count, dtype=np.int64) for count in counts]),
            origin=np.arange(sum(counts), dtype=np.int64),
        ),
    )
