"""Pass 1: operators become tasks, each of which writes one piece of its operator's output."""

from __future__ import annotations

import numpy as np

from kgen.ir.graph import Graph
from kgen.ir.operator import Operator, sequence_entries, token_rows
from kgen.ir.problem import Problem
from kgen.ir.region import Axis, Box, Layout, Tiles, overlap, volume
from kgen.passes.errors import CompileError
from kgen.tgraph.tgraph import Tasks, TGraph

COLUMN_STEP = 8  # tiles start at multiples of this many columns
MAX_COLUMNS = 128
MAX_TASKS = 1 << 14  # of one operator; the checks compare every task of it with every other
# What a task costs besides its bytes, in the bytes that one SM could read meanwhile: about 0.3 us of waiting,
# decoding and triggering at 35 GB/s.
TASK_OVERHEAD = 10 * 1024


def decompose(graph: Graph) -> TGraph:
    """Tasks of all operators in program order, numbered from 0.

    Raises CompileError if an operator has too many tasks, or if they do not write each element of its output
    exactly once.
    """
    columns: list[tuple[int, Tiles]] = []
    checked: set[tuple[object, ...]] = set()
    for number, op in enumerate(graph.ops):
        tiles = choose_tiles(op, graph)
        _check_cover(op, tiles, graph, checked)
        columns.append((number, tiles))
    tasks = Tasks(
        op=np.concatenate([np.full(len(tiles), number, np.int64) for number, tiles in columns]),
        begin=np.concatenate([tiles.begin for _, tiles in columns]),
        end=np.concatenate([tiles.end for _, tiles in columns]),
        index=np.concatenate([tiles.index for _, tiles in columns]),
        origin=np.arange(sum(len(tiles) for _, tiles in columns), dtype=np.int64),
    )
    return TGraph(op_names=tuple(op.name for op in graph.ops), tasks=tasks, last=len(tasks) - 1)


def choose_tiles(op: Operator, graph: Graph) -> Tiles:
    """The task grid of an operator, its second axis outermost."""
    if op.axis is Axis.COLUMNS:
        return split(graph.by_name[op.output].cols, _best_width(op, graph))
    if op.axis is Axis.ROWS:
        return split(graph.runtime.rows, 1)
    if op.axis is Axis.SEQUENCES:
        _limit(op, graph.runtime.batch * op.parts())
        return split(graph.runtime.batch, 1, op.parts())
    return split(1, 1)


def split(extent: int, width: int, parts: int = 1) -> Tiles:
    """[0, extent) in pieces of `width`, the last one shorter if need be, for each of `parts` indices."""
    begin = np.arange(0, extent, width, dtype=np.int64)
    end = np.minimum(begin + width, extent)
    return Tiles(
        np.tile(begin, parts), np.tile(end, parts), np.repeat(np.arange(parts, dtype=np.int64), len(begin))
    )


def _best_width(op: Operator, graph: Graph) -> int:
    """The tile width with which the workers, in rounds, finish first; of equals the widest."""
    extent = graph.by_name[op.output].cols
    unit = int(np.gcd.reduce([reader.column_unit(op.output) for reader in graph.ops]))
    widths = [w for w in range(COLUMN_STEP, MAX_COLUMNS + 1, COLUMN_STEP) if unit % w == 0]
    _limit(op, -(-extent // max(widths)))
    widths = [w for w in widths if extent <= w * MAX_TASKS]

    def time(width: int) -> int:
        tiles = split(extent, width)
        rounds = -(-len(tiles) // graph.runtime.workers)
        return rounds * (int(op.cost(tiles, graph).max()) + TASK_OVERHEAD)

    return min(reversed(widths), key=time)


def _limit(op: Operator, tasks: int) -> None:
    if tasks > MAX_TASKS:
        raise _error(op, f"{tasks} tasks, but an operator has at most {MAX_TASKS}")


def _error(op: Operator, text: str) -> CompileError:
    return CompileError("decompose", [Problem(f"{op.name}: {text}", operator=op.name)])


def _check_cover(op: Operator, tiles: Tiles, graph: Graph, checked: set[tuple[object, ...]]) -> None:
    """Pieces that lie inside the output, do not overlap and add up to its size are a partition of it."""
    layout = next(o.layout for o in op.operands(graph) if o.slot == op.output_slot)
    whole = (token_rows if layout is Layout.ROWS else sequence_entries)(graph, op.output).box
    box = op.writes(tiles, graph).box
    key = (whole, tiles.begin.tobytes(), tiles.end.tobytes(), tiles.index.tobytes(), op.kind)
    if key in checked:
        return
    checked.add(key)
    sizes = np.broadcast_to(np.asarray(volume(box)), (len(tiles),))
    clash = np.argwhere(np.triu(overlap(box, box, (len(tiles), len(tiles))), 1))
    if len(clash):
        first, second = (f"[{tiles.begin[i]}:{tiles.end[i]}]/{tiles.index[i]}" for i in clash[0])
        raise _error(op, f"tasks {first} and {second} write the same elements")
    outside = "" if _inside(box, whole) else ", not all of them inside"
    if outside or int(sizes.sum()) != volume(whole):
        raise _error(op, f"its tasks write {int(sizes.sum())} elements of {volume(whole)}{outside}")


def _inside(box: Box, whole: Box) -> bool:
    return all(
        bool(np.all(np.asarray(part.low) >= np.asarray(all_.low)))
        and bool(np.all(np.asarray(part.high) <= np.asarray(all_.high)))
        for part, all_ in zip(box, whole, strict=True)
    )
