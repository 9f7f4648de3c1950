"""Whether the runtime's flags order what the regions ask for: every pair of tasks of two ranks, no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise, zip_longest

import numpy as np

from kgen.passes.errors import CompileError
from kgen.plan.kernel.flags import Family, Flag, sets, waits
from kgen.plan.kernel.instance import CollectiveInstance, Instance, Kind, ProductInstance, Task
from kgen.tgraph.tgraph import TGraph

Flags = Callable[[Task, Instance], Iterator[Flag]]
Pushes = Sequence[Sequence[int]]  # of a block: those of each of its tiles, in order; some have none
_OF_RANKS = (Family.DONE, Family.ENDS, Family.BEGUN)
STAGED = 4  # tiles of a block that wait to be pushed: Layout::staging_slots
_SHOWN = 8


def check_protocol(
    instance: Instance, tgraph: TGraph, *, set_by: Flags = sets, awaited_by: Flags = waits
) -> dict[Family, int]:
    """How many pairs of tasks of two ranks each family of flags orders.

    Raises CompileError with the tasks where no flag orders a pair, and where a flag orders none. Tasks of one
    rank need none: within a call they are ordered inside a block, and calls follow each other in their
    stream. Flags about a peer as a whole may order nothing where few rows leave it little to do.
    """
    tasks = instance.tasks
    set_ = [frozenset(set_by(task, instance)) for task in tasks]
    awaited = [frozenset(awaited_by(task, instance)) for task in tasks]
    needed: set[Flag] = set()
    counts = dict.fromkeys((flag.family for flags in awaited for flag in flags), 0)
    problems = []
    for p, c in _cross_pairs(tasks, tgraph):
        covering = set_[p] & awaited[c]
        if not covering:
            problems.append(f"{tasks[p]} must come before {tasks[c]}, and no flag says so")
        elif len(covering) == 1:
            needed |= covering
        for flag in covering:
            counts[flag.family] += 1
    waiters = {flag: task for task, flags in zip(tasks, awaited, strict=True) for flag in flags}
    setters = {flag: task for task, flags in zip(tasks, set_, strict=True) for flag in flags}
    for flag, task in waiters.items():
        if flag.family in _OF_RANKS:
            continue
        if flag not in setters:
            problems.append(f"{task} waits for a {flag.family} flag that nothing sets")
        elif flag not in needed:
            what = f"the {flag.family} flag that {setters[flag]} sets and {task} waits for"
            problems.append(f"{what} orders nothing")
    if problems:
        raise CompileError("protocol", problems)
    return counts


def in_turns(blocks: Sequence[Pushes]) -> Iterator[int]:
    """What an agent pushes: every block's first tile, then every block's second (`push_tiles_of_blocks`)."""
    for tiles in zip_longest(*blocks, fillvalue=()):
        for pushes in tiles:
            yield from pushes


def check_progress(
    instance: ProductInstance,
    sms: int,
    agents: int | None = None,
    *,
    awaited_by: Flags = waits,
    set_by: Flags = sets,
    served: Callable[[Sequence[Pushes]], Iterable[int]] = in_turns,
) -> None:
    """That no role of any block waits for what comes only after it. Raises CompileError with the tasks.

    sms: that compute. agents: that push, each for every so-manieth of them; None: each SM for itself. served:
    in which order an agent pushes what its blocks hand on.

    The consumers of a block take its tiles in order, pushers push a block's tiles in that order, and a block
    has room for a few that wait to be pushed. With one cluster of SMs a rank has one order, and so has a
    single agent, which takes the tiles of its blocks in turns; any number of SMs and agents takes parts of
    these, so what one cluster and one agent can do, all can. Clusters that share tiles (`pk/lcsc/deal.hpp`)
    take those that they finish in that order, too; what they only help with comes before, and waits for
    nothing but rows, which are pushed whatever is computed.
    """
    first = [i for i, task in enumerate(instance.tasks) if task.call == 1]
    places: dict[tuple[int, int, int], list[int]] = defaultdict(
        list
    )  # tasks of a tile in the order of stages
    before: dict[int, set[int]] = {i: set() for i in first}
    setters: dict[Flag, list[int]] = defaultdict(list)
    for i in first:
        task = instance.tasks[i]
        places[task.rank, task.owner, task.slot].append(i)
        for flag in set_by(task, instance):
            setters[flag].append(i)
    for i in first:
        for flag in awaited_by(instance.tasks[i], instance):
            before[i].update(setters[flag])
    for rank in range(instance.shape.world):
        queues: list[list[int]] = []  # what is done one after the other
        pushes: list[list[list[int]]] = []
        for sm in range(sms):
            consumed: list[int] = []
            pushed: list[int] = []
            pushes.append([])
            for tile in instance.order(rank).of_sm(sm, sms):
                of_tile = places.get((rank, tile.owner, tile.slot), []) if tile.rows else []
                handed_on = len(pushed)
                for i in of_tile:
                    if instance.tasks[i].kind in (Kind.MULTIPLY, Kind.REDUCE):
                        consumed.append(i)
                    elif instance.tasks[i].kind in (Kind.PUSH_TILE, Kind.PUSH_SUM):
                        before[i].add(consumed[-1])
                        pushed.append(i)
                if len(pushed) > handed_on:  # there was room for it after an earlier push
                    before[consumed[-1]].update(pushed[: max(handed_on - STAGED + 1, 0)])
                pushes[-1].append(pushed[handed_on:])
            queues.append(consumed)
        count = agents or sms
        queues += [list(served(pushes[agent::count])) for agent in range(count)]
        for queue in queues:
            for earlier, later in pairwise(queue):
                before[later].add(earlier)
    _check_acyclic(before, instance)


def check_calls(instance: CollectiveInstance, *, awaited_by: Flags = waits, set_by: Flags = sets) -> None:
    """That no rank of a collective waits for what comes only after it. Raises CompileError with the tasks.

    A rank does one task after the other; the blocks of threads of one shot come by their numbers.
    """
    tasks = instance.tasks
    setters: dict[Flag, list[int]] = defaultdict(list)
    for i, task in enumerate(tasks):
        for flag in set_by(task, instance):
            setters[flag].append(i)
    before: dict[int, set[int]] = {}
    for i, task in enumerate(tasks):
        before[i] = {j for flag in awaited_by(task, instance) for j in setters[flag]}
    phases = {Kind.FILL: 0, Kind.COPY_IN: 1, Kind.COPY_OUT: 3, Kind.USE: 4}
    for rank in range(instance.shape.world):
        own = [i for i, task in enumerate(tasks) if task.rank == rank]
        own.sort(key=lambda i: (tasks[i].call, phases.get(tasks[i].kind, 2), tasks[i].block))
        for earlier, later in pairwise(own):
            before[later].add(earlier)
    _check_acyclic(before, instance)


def _check_acyclic(before: Mapping[int, set[int]], instance: Instance) -> None:
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        names = ", ".join(str(instance.tasks[i]) for i in error.args[1][:_SHOWN])
        raise CompileError("protocol", [f"these tasks wait for each other: {names}"]) from error


def _cross_pairs(tasks: tuple[Task, ...], tgraph: TGraph) -> Iterator[tuple[int, int]]:
    """Pairs of tasks of different ranks, by their numbers."""
    ranks = np.array([task.rank for task in tasks])
    for block in tgraph.pairs:
        high, wide = block.mask.shape
        producers = ranks[block.first_producer : block.first_producer + high]
        consumers = ranks[block.first_consumer : block.first_consumer + wide]
        for p, c in np.argwhere(block.mask & (producers[:, None] != consumers)).tolist():
            yield block.first_producer + p, block.first_consumer + c
