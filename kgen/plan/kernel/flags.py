"""The flags by which ranks wait for each other, as the runtime names them by formula (`pk/lcsc`)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kgen.plan.kernel.instance import BUFFERS, CollectiveInstance, Instance, Kind, ProductInstance, Task

_PUSHES = (Kind.PUSH_ROWS, Kind.PUSH_TILE, Kind.PUSH_SUM)
FREE_AFTER = BUFFERS  # calls: the buffers are used in turns


class Family(StrEnum):
    """Flags of one sort, named as in `pk::lcsc::Workspace`."""

    GATHERED = "gathered"  # [rank][block of rows]: set by the rank that sends them, awaited by loaders
    PARTIAL = "partial"  # [slot or block][rank]: set by pushers of the rank, awaited by what adds up
    DONE = (
        "done"  # [rank]: set when all of the rank's tasks are done, awaited before more is sent, or the end
    )
    ENDS = "ends"  # [rank][pusher]: set when sums have been pushed, awaited before the call ends
    BEGUN = "begun"  # [rank]: set when a collective begins, awaited before anything moves


class Flag(NamedTuple):
    """A word in the memory of rank `at` that reaches the epoch of `call` when `source` sets it."""

    family: Family
    call: int
    at: int
    source: int
    number: int = 0


def sets(task: Task, instance: Instance) -> Iterator[Flag]:
    """The flags that are set once the task is done, for DONE and ENDS with all of its rank and call."""
    if isinstance(instance, CollectiveInstance):
        yield from (_set_in_one_shot if instance.one_shot else _set_by_collective)(task, instance)
    elif isinstance(instance, ProductInstance):
        yield from _set_by_product(task, instance)


def waits(task: Task, instance: Instance) -> Iterator[Flag]:
    """The flags that the task waits for."""
    if isinstance(instance, CollectiveInstance):
        yield from (_awaited_in_one_shot if instance.one_shot else _awaited_by_collective)(task, instance)
    elif isinstance(instance, ProductInstance):
        yield from _awaited_by_product(task, instance)


def _set_by_product(task: Task, instance: ProductInstance) -> Iterator[Flag]:
    if task.kind in (Kind.PUSH_ROWS, Kind.COPY_ROWS):
        yield Flag(Family.GATHERED, task.call, task.peer, task.rank, task.block)
    if task.kind is Kind.COPY_ROWS:  # a rank says that it is done when its SMs are, whatever its copies do
        return
    if task.kind is Kind.PUSH_TILE:
        yield Flag(Family.PARTIAL, task.call, task.peer, task.rank, task.slot)
    if task.kind is Kind.USE:  # what the caller does with the output comes before all of the next call
        for push in instance.tasks:
            if (push.kind, push.call, push.rank) == (Kind.PUSH_TILE, task.call + 1, task.rank):
                yield Flag(Family.PARTIAL, push.call, push.peer, push.rank, push.slot)
        return
    for rank in range(instance.shape.world):
        yield Flag(Family.DONE, task.call, rank, task.rank)
        if task.kind is Kind.PUSH_SUM:
            yield Flag(Family.ENDS, task.call, rank, task.rank)


def _awaited_by_product(task: Task, instance: ProductInstance) -> Iterator[Flag]:
    ranks = range(instance.shape.world)
    if task.kind in _PUSHES:  # to buffers in turns; but copies may have used in the last call what is next
        free_after = 1 if task.call - 1 in instance.copied else FREE_AFTER
        yield from (flag for rank in ranks for flag in _done(task, rank, free_after))
    if task.kind is Kind.COPY_ROWS:  # always to the same buffer; the runtime waits for all ranks
        yield from _done(task, task.peer, 1)
    reads_rows = task.kind in (Kind.MULTIPLY, Kind.KEEP_ROWS) and instance.gather
    if reads_rows and task.owner != task.rank:
        yield Flag(Family.GATHERED, task.call, task.rank, task.owner, task.block)
    for rank in (r for r in ranks if r != task.rank):
        if task.kind in (Kind.REDUCE, Kind.PUSH_SUM):  # a sum is pushed after it has been reduced
            yield Flag(Family.PARTIAL, task.call, task.rank, rank, task.slot)
        if task.kind is Kind.USE:
            yield Flag(Family.ENDS, task.call, task.rank, rank)


def _done(task: Task, rank: int, free_after: int) -> Iterator[Flag]:
    """One wait, for the epoch of a call: the calls before it are done as well."""
    for call in range(1, task.call - free_after + 1):
        yield Flag(Family.DONE, call, task.rank, rank)


def _first_and_last(instance: CollectiveInstance) -> tuple[Kind, Kind]:
    """What a rank does with the memory that peers read and write, before and after they do."""
    return (Kind.COPY_IN, Kind.COPY_OUT) if instance.in_network else (Kind.FILL, Kind.USE)


def _set_by_collective(task: Task, instance: CollectiveInstance) -> Iterator[Flag]:
    """A call begins when its input is there and the output of the last is free; it has moved its part."""
    first, last = _first_and_last(instance)
    for rank in _peers(task, instance):
        if task.kind is first:
            yield Flag(Family.BEGUN, task.call, rank, task.rank)
        elif task.kind is last:
            yield Flag(Family.BEGUN, task.call + 1, rank, task.rank)
        elif task.kind is Kind.MOVE:
            yield Flag(Family.DONE, task.call, rank, task.rank)


def _awaited_by_collective(task: Task, instance: CollectiveInstance) -> Iterator[Flag]:
    """What the caller does after a call comes after its end."""
    first, last = _first_and_last(instance)
    for rank in _peers(task, instance):
        if task.kind is Kind.MOVE:
            yield Flag(Family.BEGUN, task.call, task.rank, rank)
        elif task.kind is last:
            yield Flag(Family.DONE, task.call, task.rank, rank)
        elif task.kind is first and task.call > 1:
            yield Flag(Family.DONE, task.call - 1, task.rank, rank)


def _set_in_one_shot(task: Task, instance: CollectiveInstance) -> Iterator[Flag]:
    """A push says that it is there, and that what the peer pushed in the last call has been read."""
    if task.kind is Kind.PUSH_SUMMAND:
        yield Flag(Family.PARTIAL, task.call, task.peer, task.rank, task.block)
    elif task.kind is Kind.ADD:
        for rank in _peers(task, instance):
            yield Flag(Family.PARTIAL, task.call + 1, rank, task.rank, task.block)


def _awaited_in_one_shot(task: Task, instance: CollectiveInstance) -> Iterator[Flag]:
    """A block pushes to where it did two calls before: the last call's flag says that this has been read."""
    if task.kind is Kind.ADD:
        for rank in _peers(task, instance):
            yield Flag(Family.PARTIAL, task.call, task.rank, rank, task.block)
    elif task.kind is Kind.PUSH_SUMMAND and task.call > FREE_AFTER:
        yield Flag(Family.PARTIAL, task.call - 1, task.rank, task.peer, task.block)


def _peers(task: Task, instance: Instance) -> Iterator[int]:
    return (rank for rank in range(instance.shape.world) if rank != task.rank)
