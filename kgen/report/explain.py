"""What each pass made of a graph, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from kgen.ir.graph import Runtime
from kgen.passes.pipeline import Compilation, PassStats
from kgen.report.sizes import size_text
from kgen.report.tiling import Tiling, tilings
from kgen.report.workers import Workers, choose_worker
from kgen.tgraph.tgraph import START_EVENT, TGraph

TASK_BYTES = 24  # sizeof(mpk::Task)
EVENT_BYTES = 12  # sizeof(mpk::EventDesc)
TASK_NUMBER_BYTES = 4


@dataclass(frozen=True)
class ExplainReport:
    """The figures of one compilation.

    tasks: without the empty ones. pairs: that the regions ask for. events: of the plan, START_EVENT included.
    bytes_before: a descriptor for each task and a list of the tasks that it releases (`list_bytes`).
    bytes_after: a descriptor for each task, and for each event first and count of what it releases.
    """

    name: str
    runtime: Runtime
    operators: int
    tasks: int
    pairs: int
    events: int
    empty_tasks: int
    bytes_before: int
    bytes_after: int
    passes: tuple[PassStats, ...]
    tilings: tuple[Tiling, ...]
    workers: Workers

    @property
    def tasks_per_operator(self) -> float:
        """Tasks divided by operators."""
        return self.tasks / self.operators

    def to_json(self) -> dict[str, Any]:
        """Plain values; `passes` has what each pass counted and the seconds that it took."""
        return {
            "operators": self.operators,
            "tasks": self.tasks,
            "tasks_per_operator": self.tasks_per_operator,
            "pairs": self.pairs,
            "events": self.events,
            "empty_tasks": self.empty_tasks,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "passes": [{"name": p.name, "seconds": p.seconds, **p.counts} for p in self.passes],
            "runtime": asdict(self.runtime),
            "worker": self.workers.to_json(),
        }

    def to_table(self) -> RenderableType:
        """A table of the passes, one of the task grids, and what each worker's step waits for."""
        sizes = asdict(self.runtime)
        named = ", ".join(f"{name} {sizes[name]:,}" for name in ("batch", "context", "rows", "workers"))
        passes = Table(title=f"{self.name}: {named}", title_justify="left")
        passes.add_column("pass")
        passes.add_column("result")
        passes.add_column("ms", justify="right")
        for stage in self.passes:
            passes.add_row(stage.name, self._result(stage), f"{stage.seconds * 1e3:.0f}")
        grids = Table(title="task grids", title_justify="left")
        for column, justify in (("task type", "left"), ("operators", "right"), ("tasks of each", "right")):
            grids.add_column(column, justify=justify)  # type: ignore[arg-type]
        grids.add_column("one task")
        grids.add_column("bytes of all tasks, at most", justify="right")
        for t in self.tilings:
            grids.add_row(t.label, f"{t.operators:,}", f"{t.tasks:,}", t.piece, size_text(t.bytes))
        return Group(passes, grids, "", self.workers.to_table())

    def _result(self, stage: PassStats) -> str:
        c = stage.counts
        ratio = self.bytes_before / self.bytes_after
        text: Mapping[str, str] = {
            "check": "{operators:,} operators, {tensors:,} tensors",
            "decompose": "{tasks:,} tasks, {per_operator:.1f} per operator",
            "dependencies": "{pairs:,} pairs of tasks in order",
            "fuse_events": "{events_before:,} events, one a pair\n"
            "{needed:,} events needed, the others follow from them\n"
            "{after_successor_fusion:,} events after successor-set fusion\n"
            "{after_predecessor_fusion:,} events after predecessor-set fusion ({fused:.0f} pairs an event)",
            "normalize": "{empty_tasks:,} empty tasks and {events_added:,} events added",
            "linearize": "{events:,} events, the start event counted\n"
            "task list of {before} instead of {after}, {ratio:.1f} times smaller",
            "select_tasks": "{variants:,} instantiations of task templates",
            "place": "{aot:,} tasks in lists of workers, {jit:,} through a queue of {queue:,}",
            "plan": "{runs:,} runs of tasks, weights {weights}, activations {arena}",
        }
        values: dict[str, Any] = {
            **c,
            "per_operator": self.tasks_per_operator,
            "fused": self.pairs / max(c.get("after_predecessor_fusion", 1), 1),
            "before": size_text(self.bytes_after),
            "after": size_text(self.bytes_before),
            "ratio": ratio,
            "weights": size_text(c.get("weight_bytes", 0)),
            "arena": size_text(c.get("arena_bytes", 0)),
        }
        return text[stage.name].format(**values)


def explain(compilation: Compilation) -> ExplainReport:
    """The figures of a compilation."""
    counts = {stage.name: stage.counts for stage in compilation.stages}
    tgraph = compilation.tgraph
    return ExplainReport(
        name=compilation.plan.name,
        runtime=compilation.plan.runtime,
        operators=len(compilation.graph.ops),
        tasks=counts["decompose"]["tasks"],
        pairs=counts["dependencies"]["pairs"],
        events=len(tgraph.events),
        empty_tasks=counts["normalize"]["empty_tasks"],
        bytes_before=list_bytes(tgraph),
        bytes_after=TASK_BYTES * len(tgraph.tasks) + EVENT_BYTES * len(tgraph.events),
        passes=compilation.stages,
        tilings=tuple(tilings(compilation)),
        workers=choose_worker(compilation),
    )


def list_bytes(tgraph: TGraph) -> int:
    """Bytes of a task list in which each task lists the tasks that it releases, 4 bytes each."""
    released = sum(
        len(e.producers) * len(e.consumers) for i, e in enumerate(tgraph.events) if i != START_EVENT
    )
    return TASK_BYTES * len(tgraph.tasks) + TASK_NUMBER_BYTES * released
