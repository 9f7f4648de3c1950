"""Run-length encoding of the task list."""

from __future__ import annotations

from collections.abc import Sequence

from kgen.plan.plan import TaskRow, TaskRun


def encode_runs(tasks: Sequence[TaskRow], workers: int) -> tuple[TaskRun, ...]:
    """The fewest runs, taken greedily, that expand to these tasks in this order."""
    runs = []
    start = 0
    while start < len(tasks):
        count = _run_length(tasks, start, workers)
        first, last = tasks[start], tasks[start + count - 1]
        second = tasks[start + 1] if count > 1 else first
        runs.append(
            TaskRun(
                op=first.op,
                jit=first.jit,
                count=count,
                begin=first.begin,
                step=second.begin - first.begin,
                width=first.end - first.begin,
                limit=last.end,
                index=first.index,
                index_step=second.index - first.index,
                wait=first.wait,
                trigger=first.trigger,
                slot=first.slot if not first.jit else 0,
            )
        )
        start += count
    return tuple(runs)


def _run_length(tasks: Sequence[TaskRow], start: int, workers: int) -> int:
    """How many tasks from `start` on differ by constant steps; only the last may be narrower."""
    first = tasks[start]
    width = first.end - first.begin
    step = index_step = 0
    previous = first
    for i in range(start + 1, len(tasks)):
        task = tasks[i]
        if i == start + 1:
            step, index_step = task.begin - first.begin, task.index - first.index
            if step < 0 or index_step < 0:
                return 1
        same = (
            (task.op, task.jit, task.wait, task.trigger) == (first.op, first.jit, first.wait, first.trigger)
            and task.begin - previous.begin == step
            and task.index - previous.index == index_step
            and (task.jit or task.slot == (previous.slot + 1) % workers)
            and previous.end - previous.begin == width
            and task.end - task.begin <= width
            # A narrower task sets the limit, which must not cut those before it.
            and (task.end - task.begin == width or task.end >= previous.end)
        )
        if not same:
            return i - start
        previous = task
    return len(tasks) - start
