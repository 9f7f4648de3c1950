"""All passes on a kernel in order: from its graph to its plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.problem import Problem
from kgen.ir.region import Tiles
from kgen.passes.dependencies import Touch, order_by_regions
from kgen.passes.errors import CompileError
from kgen.passes.fuse_events import fuse_events
from kgen.passes.kernel.decompose import make_instance, task_graph
from kgen.passes.kernel.protocol import check_progress, check_protocol
from kgen.passes.kernel.samples import samples
from kgen.passes.linearize import linearize
from kgen.passes.normalize import normalize
from kgen.passes.verify import Stage, verify
from kgen.plan.kernel.choice import Choice, choose
from kgen.plan.kernel.flags import Family
from kgen.plan.kernel.instance import Instance, Shape
from kgen.plan.kernel.plan import KernelPlan, build_kernel_plan
from kgen.plan.kernel.runtime import refusals
from kgen.tgraph.tgraph import TGraph


@dataclass(frozen=True)
class Sample:
    """What the passes found at one size: tasks and pairs of all ranks and calls, and how they are ordered.

    crossing: pairs of tasks of two ranks that each family of flags orders.
    """

    shape: Shape
    tasks: int
    pairs: int
    events: int
    crossing: dict[Family, int]


@dataclass(frozen=True)
class KernelCompilation:
    """A compiled kernel: its plan, how it was chosen, and the sizes at which its protocol was checked."""

    graph: KernelGraph
    plan: KernelPlan
    choice: Choice
    samples: tuple[Sample, ...]


def compile_kernel(graph: KernelGraph) -> KernelCompilation:
    """Choose, plan, and check the protocol on samples. Raises CompileError if a graph cannot be compiled."""
    _refuse("check", [Problem(problem) for problem in graph.check()])
    _refuse("support", refusals(graph))
    choice = choose(graph)
    plan = build_kernel_plan(graph, choice)
    checked = tuple(_check(graph, plan, shape) for shape in samples(plan))
    idle = {family for sample in checked for family, pairs in sample.crossing.items() if pairs == 0}
    idle -= {family for sample in checked for family, pairs in sample.crossing.items() if pairs}
    _refuse("protocol", [Problem(f"no pair of tasks needs the {family} flags") for family in sorted(idle)])
    return KernelCompilation(graph, plan, choice, checked)


def order_tasks(instance: Instance) -> tuple[TGraph, TGraph]:
    """The tasks of an instance in the order that their regions ask for: with fused events, and linear.

    These are the passes of models; each is verified.
    """
    tgraph = task_graph(instance)
    bounds = np.searchsorted(tgraph.tasks.op, np.arange(len(instance.stages) + 1))
    touches = []
    for stage, first, end in zip(instance.stages, bounds[:-1], bounds[1:], strict=True):
        part = slice(first, end)
        tiles = Tiles(tgraph.tasks.begin[part], tgraph.tasks.end[part], tgraph.tasks.index[part])
        touches.append(Touch(stage.name, tiles, stage.reads, stage.write))
    fused, _ = fuse_events(order_by_regions(touches, tgraph))
    verify(fused, Stage.FUSED)
    normal = normalize(fused)
    verify(normal, Stage.NORMALIZED)
    linear = linearize(normal)
    verify(linear, Stage.LINEAR)
    return fused, linear


def _check(graph: KernelGraph, plan: KernelPlan, shape: Shape) -> Sample:
    instance = make_instance(graph, shape, plan.grid)
    _, linear = order_tasks(instance)
    crossing = check_protocol(instance, linear)
    check_progress(instance, plan.members)
    pairs = sum(int(np.count_nonzero(block.mask)) for block in linear.pairs)
    return Sample(shape, len(instance.tasks), pairs, len(linear.events), crossing)


def _refuse(stage: str, problems: list[Problem]) -> None:
    if problems:
        raise CompileError(stage, problems)
