"""All passes on a kernel in order: from its graph to its plan."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import Transfer
from kgen.ir.problem import Problem
from kgen.ir.region import Tiles
from kgen.passes.dependencies import Touch, order_by_regions
from kgen.passes.errors import CompileError
from kgen.passes.fuse_events import fuse_events
from kgen.passes.kernel.decompose import make_instance
from kgen.passes.kernel.decompose_collective import make_collective
from kgen.passes.kernel.protocol import check_calls, check_progress, check_protocol
from kgen.passes.kernel.samples import collective_samples, product_samples, transfer_samples
from kgen.passes.kernel.stages import CALLS, task_graph
from kgen.passes.linearize import linearize
from kgen.passes.normalize import normalize
from kgen.passes.verify import Stage, verify
from kgen.plan.kernel.choice import Choice, choose
from kgen.plan.kernel.flags import Family
from kgen.plan.kernel.instance import CollectiveInstance, Instance, Shape
from kgen.plan.kernel.plan import CollectivePlan, KernelPlan, ProductPlan, build_kernel_plan
from kgen.plan.kernel.runtime import PIECE, Collective, Copies, refusals
from kgen.plan.kernel.tiles import divide_up
from kgen.tgraph.tgraph import TGraph

_BLOCKS = 3  # of threads, of an all-reduce in one shot


@dataclass(frozen=True)
class Sample:
    """What the passes found at one size: tasks and pairs of all ranks and calls, and how they are ordered.

    crossing: pairs of tasks of two ranks that each family of flags orders. shots: of an all-reduce of ranks,
    else 0. transfers: what moves the bytes of each call, where that is not always registers.
    """

    shape: Shape
    tasks: int
    pairs: int
    events: int
    crossing: dict[Family, int]
    shots: int = 0
    transfers: tuple[Transfer, ...] = ()


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
    checked = tuple(_check(graph, plan))
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


def _check(graph: KernelGraph, plan: KernelPlan) -> Iterator[Sample]:
    if isinstance(plan, CollectivePlan):
        yield from _check_collective(graph, plan)
    elif isinstance(plan, ProductPlan):
        yield from _check_product(graph, plan)


def _check_product(graph: KernelGraph, plan: ProductPlan) -> Iterator[Sample]:
    for shape in product_samples(plan):
        for transfers in transfer_samples(plan, shape):
            copied = {call for call, by in enumerate(transfers, 1) if by is Transfer.COPY_ENGINE}
            instance = make_instance(graph, shape, plan.grid, calls=len(transfers), copied=copied)
            check_progress(instance, plan.members, 1 if plan.comm_sms else None)
            sample = _sample(instance, shape)
            yield sample if plan.copies is Copies.NEVER else replace(sample, transfers=transfers)


def _check_collective(graph: KernelGraph, plan: CollectivePlan) -> Iterator[Sample]:
    network = plan.transfer is Transfer.MULTIMEM
    for shape in collective_samples(plan):
        blocks = [0]  # one shot: a few blocks, the last of them ragged
        if plan.collective is Collective.ALL_REDUCE and not network:
            blocks.append(divide_up(shape.m * shape.n // PIECE, _BLOCKS))
        for block in blocks:
            instance = make_collective(graph, shape, block=block)
            check_calls(instance)
            sample = _sample(instance, shape)
            yield replace(sample, transfers=(plan.transfer,) * CALLS) if network else sample


def _sample(instance: Instance, shape: Shape) -> Sample:
    _, linear = order_tasks(instance)
    crossing = check_protocol(instance, linear)
    pairs = sum(int(np.count_nonzero(block.mask)) for block in linear.pairs)
    shots = 0
    if isinstance(instance, CollectiveInstance) and instance.collective is Collective.ALL_REDUCE:
        shots = 0 if instance.in_network else 1 if instance.one_shot else 2
    return Sample(shape, len(instance.tasks), pairs, len(linear.events), crossing, shots)


def _refuse(stage: str, problems: list[Problem]) -> None:
    if problems:
        raise CompileError(stage, problems)
