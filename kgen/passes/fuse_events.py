"""Pass 3: as few events as the pairs allow, with the happens-before relation unchanged."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from kgen.tgraph.bits import members
from kgen.tgraph.tgraph import NONE, Event, IntArray, PairBlock, TGraph


@dataclasses.dataclass(frozen=True)
class FusionStats:
    """Events at each point of the pass, START_EVENT left out.

    `pairs` is one event for each pair that the regions ask for, `needed` without the pairs that others imply.
    """

    pairs: int
    needed: int
    after_successor_fusion: int
    after_predecessor_fusion: int


@dataclasses.dataclass(frozen=True)
class _Event:
    """Producers as a bit set over tasks, consumers as a sorted tuple of tasks."""

    producers: int
    consumers: tuple[int, ...]


def fuse_events(tgraph: TGraph) -> tuple[TGraph, FusionStats]:
    """Make events of pairs: drop implied ones, then fuse by successors and by predecessors to a fixed point.

    Successor-set fusion joins events with the same consumers; an event of two pairs with the same consumer is
    the first case of it, so it leaves one event for each task that waits. Predecessor-set fusion joins
    events with the same producers. Tasks without producers wait for START_EVENT. Needs tasks numbered so that
    producers come before consumers.
    """
    events = _needed(tgraph.pairs, len(tgraph.tasks))
    needed = sum(event.producers.bit_count() * len(event.consumers) for event in events)
    tasks_that_wait = sum(len(event.consumers) for event in events)
    fused = _fuse_predecessors(_fuse_successors(events))
    while len(fused) < len(events):
        events, fused = fused, _fuse_predecessors(_fuse_successors(fused))
    stats = FusionStats(
        pairs=sum(int(np.count_nonzero(block.mask)) for block in tgraph.pairs),
        needed=needed,
        after_successor_fusion=tasks_that_wait,
        after_predecessor_fusion=len(fused),
    )
    rest = np.ones(len(tgraph.tasks), dtype=np.bool_)
    for event in fused:
        rest[list(event.consumers)] = False
    start = Event(() if tgraph.last == NONE else (tgraph.last,), tuple(np.flatnonzero(rest).tolist()))
    ordered = sorted(fused, key=lambda event: event.consumers)
    made = [Event(tuple(members(event.producers).tolist()), event.consumers) for event in ordered]
    return dataclasses.replace(tgraph, events=(start, *made)), stats


def _fuse_successors(events: Iterable[_Event]) -> list[_Event]:
    """Join events that release the same tasks: those wait for all of the producers together."""
    joined: dict[tuple[int, ...], int] = defaultdict(int)
    for event in events:
        joined[event.consumers] |= event.producers
    return [_Event(producers, consumers) for consumers, producers in joined.items()]


def _fuse_predecessors(events: Iterable[_Event]) -> list[_Event]:
    """Join events that the same tasks trigger: they fire together."""
    joined: dict[int, set[int]] = defaultdict(set)
    for event in events:
        joined[event.producers].update(event.consumers)
    return [_Event(producers, tuple(sorted(consumers))) for producers, consumers in joined.items()]


def _needed(pairs: Iterable[PairBlock], task_count: int) -> list[_Event]:
    """The tasks that wait and for what, without the pairs that others imply: the transitive reduction.

    A producer is not needed where it comes before another producer of the same task anyway. Tasks that need
    the same producers share an entry.
    """
    blocks_of: dict[int, list[PairBlock]] = defaultdict(list)
    for block in pairs:
        blocks_of[block.first_consumer].append(block)
    event_of: IntArray = np.full(task_count, NONE, dtype=np.int64)  # which entry a task belongs to
    number_of: dict[int, int] = {}  # producers -> entry
    before: list[int] = []  # by entry: all tasks that come before its consumers
    consumers: list[list[int]] = []
    for first_consumer in sorted(blocks_of):
        blocks = blocks_of[first_consumer]
        # Most tasks of an operator share most of their producers, so what those imply is worked out once.
        implied_by: list[dict[bytes, tuple[int, int]]] = [{} for _ in blocks]
        for consumer, parts in enumerate(zip(*map(_packed_columns, blocks), strict=True), first_consumer):
            producers = implied = 0
            for block, part, known in zip(blocks, parts, implied_by, strict=True):
                entry = known.get(part)
                if entry is None:
                    bits = int.from_bytes(part, "little")
                    earlier = _all_before(bits, event_of[block.first_producer :], before)
                    entry = known[part] = (bits << block.first_producer, earlier)
                producers |= entry[0]
                implied |= entry[1]
            producers &= ~implied
            if not producers:
                continue
            number = number_of.setdefault(producers, len(before))
            if number == len(before):
                before.append(producers | implied)
                consumers.append([])
            consumers[number].append(consumer)
            event_of[consumer] = number
    return [_Event(p, tuple(c)) for p, c in zip(number_of, consumers, strict=True)]


def _all_before(tasks: int, event_of: IntArray, before: list[int]) -> int:
    """Every task that comes before one of these; a task's number is its index in `event_of`."""
    result = 0
    # One task is by far the most frequent case.
    numbers = [tasks.bit_length() - 1] if tasks.bit_count() == 1 else members(tasks)
    for event in set(event_of[numbers].tolist()):
        if event != NONE:
            result |= before[event]
    return result


def _packed_columns(block: PairBlock) -> Iterator[bytes]:
    """The producers of each consumer, 8 of them a byte."""
    packed = np.ascontiguousarray(np.packbits(block.mask, axis=0, bitorder="little").T)
    return (row.tobytes() for row in packed)
