"""What a project's model.json says about the tasks that a timeline names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgen.plan.plan import START_EVENT, TaskRow, TaskRun

NEXT_STEP = "next step"  # what the start event opens
_ELEMENT_BYTES = {"bf16": 2, "f32": 4, "i32": 4}
_LAYER = re.compile(r"\.\d+(?=\.|$)")


@dataclass(frozen=True)
class TracedPlan:
    """Tasks and events with their names.

    bytes_per_unit: of the weights that a task of an operator reads, for each unit of its main axis; 0 where
    tasks do not divide a weight among them.
    """

    name: str
    ops: tuple[str, ...]
    bytes_per_unit: tuple[int, ...]
    tasks: tuple[TaskRow, ...]
    waiting: Mapping[int, tuple[int, ...]]  # event -> operators that wait for it
    triggering: Mapping[int, tuple[int, ...]]  # event -> operators that add to it

    def label(self, op: int) -> str:
        """The name of an operator with `*` for the layer, so that those that are alike share it."""
        return _LAYER.sub(".*", self.ops[op])

    def task_name(self, task: int) -> str:
        """Its operator and its piece of the main axis, and of the second where there is one."""
        row = self.tasks[task]
        part = f" #{row.index}" if row.index else ""
        return f"{self.ops[row.op]} [{row.begin}:{row.end}]{part}"

    def task_bytes(self, task: int) -> int:
        """Bytes of weights that a task reads."""
        row = self.tasks[task]
        return (row.end - row.begin) * self.bytes_per_unit[row.op]

    def edge_name(self, event: int) -> str:
        """Who triggers an event and what that opens."""
        after = ", ".join(self.ops[op] for op in self.triggering.get(event, ()))
        opens = [self.ops[op] for op in self.waiting.get(event, ())]
        return f"{after} -> {NEXT_STEP if event == START_EVENT else ', '.join(opens)}"

    def last_tasks(self) -> frozenset[int]:
        """The tasks that end a step."""
        return frozenset(i for i, row in enumerate(self.tasks) if row.trigger == START_EVENT)


def read_plan(model: Mapping[str, Any]) -> TracedPlan:
    """From the contents of model.json. Raises KeyError for one that was written without the tasks."""
    workers = model["runtime"]["workers"]
    tasks = tuple(task for run in model["runs"] for task in TaskRun(**run).expand(workers))
    tensors = {tensor["name"]: tensor for tensor in model["tensors"]}
    waiting: dict[int, dict[int, None]] = {}
    triggering: dict[int, dict[int, None]] = {}
    for row in tasks:
        waiting.setdefault(row.wait, {})[row.op] = None
        triggering.setdefault(row.trigger, {})[row.op] = None
    return TracedPlan(
        name=model["name"],
        ops=tuple(op["name"] for op in model["ops"]),
        bytes_per_unit=tuple(_bytes_per_unit(op, tensors) for op in model["ops"]),
        tasks=tasks,
        waiting={event: tuple(ops) for event, ops in waiting.items()},
        triggering={event: tuple(ops) for event, ops in triggering.items()},
    )


def _bytes_per_unit(op: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Any]]) -> int:
    """A row of each weight matrix that has a row for each output column."""
    used: Sequence[Mapping[str, Any]] = [tensors[name] for name in op["operands"].values()]
    return sum(
        t["stride"] * _ELEMENT_BYTES[t["dtype"]]
        for t in used
        if t["space"] == "weight" and len(t["shape"]) == 2 and t["shape"][0] == op["constants"].get("n")
    )
