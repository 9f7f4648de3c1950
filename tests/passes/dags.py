"""Small tGraphs as text: pairs `a -> b c`, events `a b => c d`; tasks are letters in topological order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kgen.tgraph.tgraph import EMPTY, NONE, START_EVENT, Event, PairBlock, Tasks, TGraph

BoolArray = npt.NDArray[np.bool_]


def _tasks(count: int) -> Tasks:
    numbers = np.arange(count, dtype=np.int64)
    zeros = np.zeros(count, dtype=np.int64)
    return Tasks(op=numbers, begin=zeros, end=zeros + 1, index=zeros, origin=numbers)


def _names(count: int) -> tuple[str, ...]:
    return tuple(chr(ord("a") + i) for i in range(count))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(ord(name) - ord("a") for name in text.split()))


def _block(mask: BoolArray) -> PairBlock:
    return PairBlock(0, 0, 0, 0, mask)


def pairs(text: str) -> TGraph:
    """A graph with pairs and no events yet, from lines such as `a -> b c`."""
    edges = [
        (p, c)
        for line in text.split(";")
        for left, right in [line.split("->")]
        for p in _numbers(left)
        for c in _numbers(right)
    ]
    count = 1 + max(c for _, c in edges)
    mask = np.zeros((count, count), dtype=np.bool_)
    mask[tuple(np.array(edges).T)] = True
    return random_graph(mask)


def random_graph(mask: BoolArray) -> TGraph:
    """A graph with these pairs, bool [producer, consumer], above the diagonal."""
    return TGraph(op_names=_names(len(mask)), tasks=_tasks(len(mask)), pairs=(_block(mask),))


def events(text: str, last: str | None = None) -> TGraph:
    """A graph with events, from lines such as `a b => c d`; the pairs are what the events order directly."""
    made = []
    for line in text.split(";"):
        left, right = line.split("=>")
        made.append(Event(() if "start" in left else _numbers(left), _numbers(right)))
    count = 1 + max(t for e in made for t in (*e.producers, *e.consumers))
    number = NONE if last is None else ord(last) - ord("a")
    mask = np.zeros((count, count), dtype=np.bool_)
    for event in made[1:]:
        for p in event.producers:
            mask[p, list(event.consumers)] = True
    if last is not None:
        made[START_EVENT] = Event((number,), made[START_EVENT].consumers)
    return TGraph(
        op_names=_names(count), tasks=_tasks(count), pairs=(_block(mask),), events=tuple(made), last=number
    )


def text(tgraph: TGraph) -> list[str]:
    """The events of a graph as text. Empty tasks are numbered from 1 as e1, e2, ..."""
    empty = np.cumsum(tgraph.tasks.op == EMPTY)
    names = [
        f"e{empty[i]}" if op == EMPTY else tgraph.op_names[op]
        for i, op in enumerate(tgraph.tasks.op.tolist())
    ]
    return [
        f"{'start' if e == START_EVENT else ' '.join(names[t] for t in event.producers)} => "
        + " ".join(names[t] for t in event.consumers)
        for e, event in enumerate(tgraph.events)
    ]


def happens_before(tgraph: TGraph) -> BoolArray:
    """Which original task comes before which through events, bool [original tasks, original tasks]."""
    count = len(tgraph.tasks)
    reach = np.zeros((count, count), dtype=np.bool_)
    for event in tgraph.events[1:]:
        reach[np.ix_(event.producers, event.consumers)] = True
    return _original(tgraph, closure(reach))


def closure(reach: BoolArray) -> BoolArray:
    """The transitive closure, by Warshall's algorithm."""
    reach = reach.copy()
    for middle in range(len(reach)):
        reach |= reach[:, middle, None] & reach[middle]
    return reach


def _original(tgraph: TGraph, matrix: BoolArray) -> BoolArray:
    where = np.argsort(tgraph.tasks.origin, kind="stable")[np.count_nonzero(tgraph.tasks.origin < 0) :]
    return matrix[np.ix_(where, where)]
