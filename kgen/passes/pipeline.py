"""All passes in order: from the operator graph to the plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from kgen.ir.check import check_graph
from kgen.ir.graph import Graph
from kgen.passes.decompose import decompose
from kgen.passes.dependencies import dependencies
from kgen.passes.errors import CompileError as CompileError
from kgen.passes.fuse_events import fuse_events
from kgen.passes.linearize import linearize
from kgen.passes.normalize import normalize
from kgen.passes.place import place
from kgen.passes.select_tasks import select_tasks
from kgen.passes.verify import Stage, verify
from kgen.plan.build import build_plan
from kgen.plan.check import check_plan
from kgen.plan.plan import Plan
from kgen.tgraph.tgraph import TGraph


@dataclass(frozen=True)
class PassStats:
    """What a pass did: counts by name, and the seconds that it and the checks after it took."""

    name: str
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True)
class Compilation:
    """A compiled graph: the plan, the tGraph after the last pass, and what each pass did."""

    graph: Graph
    tgraph: TGraph
    plan: Plan
    stages: tuple[PassStats, ...]


def compile_graph(graph: Graph) -> Compilation:
    """Run every pass, with the checks between them. Raises CompileError if a graph cannot be compiled."""
    log = _Log()
    with log.stage("check") as counts:
        _refuse("check", check_graph(graph))
        counts |= {"operators": len(graph.ops), "tensors": len(graph.tensors)}
    with log.stage("decompose") as counts:
        tgraph = decompose(graph)
        counts |= {"operators": len(graph.ops), "tasks": len(tgraph.tasks)}
    with log.stage("dependencies") as counts:
        tgraph = dependencies(graph, tgraph)
        counts |= {"pairs": sum(int(np.count_nonzero(block.mask)) for block in tgraph.pairs)}
    with log.stage("fuse_events") as counts:
        tgraph, fusion = fuse_events(tgraph)
        verify(tgraph, Stage.FUSED)
        counts |= {
            "events_before": fusion.pairs,
            "needed": fusion.needed,
            "after_successor_fusion": fusion.after_successor_fusion,
            "after_predecessor_fusion": fusion.after_predecessor_fusion,
        }
    with log.stage("normalize") as counts:
        before = tgraph
        tgraph = normalize(tgraph)
        verify(tgraph, Stage.NORMALIZED)
        counts |= {
            "empty_tasks": len(tgraph.tasks) - len(before.tasks),
            "events_added": len(tgraph.events) - len(before.events),
        }
    with log.stage("linearize") as counts:
        tgraph = linearize(tgraph)
        verify(tgraph, Stage.LINEAR)
        counts |= {"tasks": len(tgraph.tasks), "events": len(tgraph.events)}
    with log.stage("select_tasks") as counts:
        selection = select_tasks(graph, tgraph)
        counts |= {"variants": len(selection.variants)}
    with log.stage("place") as counts:
        tgraph = place(graph, tgraph)
        verify(tgraph, Stage.PLACED)
        counts |= _placed(tgraph)
    with log.stage("plan") as counts:
        plan = build_plan(graph, tgraph, selection)
        _refuse("plan", check_plan(plan))
        counts |= {"runs": len(plan.runs), "weight_bytes": plan.weight_bytes, "arena_bytes": plan.arena_bytes}
    return Compilation(graph, tgraph, plan, tuple(log.stages))


class _Log:
    def __init__(self) -> None:
        self.stages: list[PassStats] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[dict[str, int]]:
        counts: dict[str, int] = {}
        start = time.perf_counter()
        yield counts
        self.stages.append(PassStats(name, counts, time.perf_counter() - start))


def _refuse(stage: str, problems: list[str]) -> None:
    if problems:
        raise CompileError(stage, problems)


def _placed(tgraph: TGraph) -> dict[str, int]:
    assert tgraph.placement is not None
    jit = int(np.count_nonzero(tgraph.placement.jit))
    return {"aot": len(tgraph.tasks) - jit, "jit": jit, "queue": tgraph.placement.queue_capacity}
