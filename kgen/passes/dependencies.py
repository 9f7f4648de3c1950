"""Pass 2: which task must come before which, from the regions that they read and write."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kgen.ir.graph import Graph
from kgen.ir.problem import Problem
from kgen.ir.region import Access, Box, Tiles, overlap
from kgen.ir.tensor import Space
from kgen.passes.errors import CompileError
from kgen.tgraph.tgraph import NONE, BoolArray, PairBlock, TGraph


@dataclass
class _Buffer:
    """Who touched a buffer since it was last written as a whole: (operator, boxes of its tasks)."""

    writer: tuple[int, Box] | None = None
    readers: list[tuple[int, Box]] = field(default_factory=list)


@dataclass(frozen=True)
class Touch:
    """What the tasks of an operator touch: the boxes that they read, and those that they write."""

    name: str
    tiles: Tiles
    reads: Sequence[Access]
    write: Access


def dependencies(graph: Graph, tgraph: TGraph) -> TGraph:
    """Pairs for read after write, write after read and write after write, and of each last task with advance.

    Raises CompileError where tasks of one operator would touch each other's output, or where a buffer is read
    before anything has written it.
    """
    bounds = np.searchsorted(tgraph.tasks.op, np.arange(len(graph.ops) + 1))
    touches = []
    for number, op in enumerate(graph.ops):
        part = slice(bounds[number], bounds[number + 1])
        tiles = Tiles(tgraph.tasks.begin[part], tgraph.tasks.end[part], tgraph.tasks.index[part])
        reads = [r for r in op.reads(tiles, graph) if graph.by_name[r.tensor].space is not Space.WEIGHT]
        touches.append(Touch(op.name, tiles, reads, op.writes(tiles, graph)))
    # What the last operator writes is for the next step, so it may be read before.
    return order_by_regions(touches, tgraph, written_before=graph.ops[-1].output)


def order_by_regions(touches: Sequence[Touch], tgraph: TGraph, *, written_before: str = "") -> TGraph:
    """The same for operators of any kind: `touches` has one entry for each, in program order.

    Every operator writes a whole buffer, so what touched the buffer before that is ordered through the writer
    and needs no pair of its own.
    """
    bounds = np.searchsorted(tgraph.tasks.op, np.arange(len(touches) + 1))
    buffers: dict[str, _Buffer] = {}
    masks: dict[tuple[int, int], BoolArray] = {}

    def add(producer: tuple[int, Box], consumer: tuple[int, Box]) -> None:
        key = (producer[0], consumer[0])
        shape = (int(bounds[key[0] + 1] - bounds[key[0]]), int(bounds[key[1] + 1] - bounds[key[1]]))
        mask = overlap(producer[1], consumer[1], shape)
        masks[key] = masks[key] | mask if key in masks else mask

    for number, op in enumerate(touches):
        write = op.write
        _check_alone(op)
        for tensor, box in op.reads:
            buffer = buffers.setdefault(tensor, _Buffer())
            if buffer.writer is not None:
                add(buffer.writer, (number, box))
            elif tensor != written_before:
                raise _error(op, f"{op.name} reads `{tensor}` before any operator has written it")
        buffer = buffers.setdefault(write.tensor, _Buffer())
        for earlier in [buffer.writer] if buffer.writer else []:
            add(earlier, (number, write.box))
        for earlier in buffer.readers:
            add(earlier, (number, write.box))
        for tensor, box in op.reads:
            buffers[tensor].readers.append((number, box))
        buffers[write.tensor] = _Buffer(writer=(number, write.box))

    if tgraph.last != NONE:
        _end_with_last(tgraph, len(touches) - 1, bounds.tolist(), masks)
    pairs = tuple(
        PairBlock(p, c, int(bounds[p]), int(bounds[c]), np.ascontiguousarray(mask))
        for (p, c), mask in sorted(masks.items())
        if mask.any()
    )
    return dataclasses.replace(tgraph, pairs=pairs)


def _end_with_last(
    tgraph: TGraph, last_op: int, bounds: list[int], masks: dict[tuple[int, int], BoolArray]
) -> None:
    """Advance rewrites the step that every task reads, so tasks that nothing else waits for come first."""
    followed = np.zeros(len(tgraph.tasks), dtype=np.bool_)
    for (producer, _), mask in masks.items():
        followed[bounds[producer] : bounds[producer + 1]] |= mask.any(axis=1)
    for op in range(last_op):
        ends = ~followed[bounds[op] : bounds[op + 1], None]
        if ends.any():
            key = (op, last_op)
            masks[key] = masks[key] | ends if key in masks else ends


def _check_alone(op: Touch) -> None:
    tiles, write = op.tiles, op.write
    shape = (len(tiles), len(tiles))
    for tensor, box in op.reads:
        if tensor != write.tensor:
            continue
        clash = overlap(write.box, box, shape) & ~np.eye(len(tiles), dtype=np.bool_)
        for writer, reader in np.argwhere(clash)[:1]:
            names = [f"[{tiles.begin[i]}:{tiles.end[i]}]/{tiles.index[i]}" for i in (writer, reader)]
            text = f"task {names[0]} writes what task {names[1]} of it reads in `{tensor}`"
            raise _error(op, f"{op.name}: {text}")


def _error(op: Touch, text: str) -> CompileError:
    return CompileError("dependencies", [Problem(text, operator=op.name)])
