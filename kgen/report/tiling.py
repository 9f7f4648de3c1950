"""How operators were cut into tasks, those that are alike together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgen.ir.region import Axis, Tiles
from kgen.passes.pipeline import Compilation


@dataclass(frozen=True)
class Tiling:
    """`operators` operators of one variant, each in `tasks` pieces, which together move at most `bytes`."""

    label: str
    operators: int
    tasks: int
    piece: str
    bytes: int


def tilings(compilation: Compilation) -> Iterator[Tiling]:
    """One entry for each variant and number of tasks, in program order."""
    graph, tasks, plan = compilation.graph, compilation.tgraph.tasks, compilation.plan
    groups: dict[tuple[int, int], list[int]] = {}
    parts = [np.sort(np.flatnonzero(tasks.op == number)) for number in range(len(graph.ops))]
    for number in range(len(graph.ops)):
        groups.setdefault((plan.ops[number].variant, len(parts[number])), []).append(number)
    for (variant, count), members in groups.items():
        op, part = graph.ops[members[0]], parts[members[0]]
        tiles = Tiles(tasks.begin[part], tasks.end[part], tasks.index[part])
        sizes = [f"{name} {value}" for name, value in plan.variants[variant].constants if name in _SIZES]
        yield Tiling(
            label=" ".join([op.kind, *sizes]),
            operators=len(members),
            tasks=count,
            piece=_piece(op.axis, op.parts(), tiles),
            bytes=int(op.cost(tiles, graph).sum()),
        )


_SIZES = {"n", "k", "hidden", "heads", "kv_heads", "head", "vocab"}


def _piece(axis: Axis, parts: int, tiles: Tiles) -> str:
    if axis is Axis.COLUMNS:
        width, last = int(tiles.end[0] - tiles.begin[0]), int(tiles.end[-1] - tiles.begin[-1])
        return f"{width} columns" if width == last else f"{width} columns, the last {last}"
    if axis is Axis.ROWS:
        return "1 token row"
    if axis is Axis.SEQUENCES:
        return "1 sequence" if parts == 1 else "1 KV head of 1 sequence"
    return "everything"
