"""What a drawing of a compilation shows: operators, layers that are alike as one, and events between them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum

from kgen.passes.pipeline import Compilation
from kgen.tgraph.tgraph import START_EVENT


class Level(StrEnum):
    """How much of a model to draw."""

    LAYERS = "layers"  # one layer for all that are alike
    OPERATORS = "operators"  # every operator


@dataclass(frozen=True)
class Node:
    """An operator, or the operators at the same place in layers that are alike."""

    key: int
    name: str
    kind: str
    tasks: int
    jit: bool


@dataclass(frozen=True)
class Group:
    """Nodes in program order; `layers` is the range of layers they stand for, None outside of layers."""

    layers: tuple[int, int] | None
    nodes: tuple[Node, ...]

    @property
    def title(self) -> str:
        """What to call the group."""
        if self.layers is None:
            return ""
        first, last = self.layers
        return (
            f"layer {first}"
            if first == last
            else f"layers {first} to {last}, one of {last - first + 1} alike"
        )


@dataclass(frozen=True)
class Edge:
    """`events` events by which tasks of one node open tasks of another; `next_layer`: of the layer after."""

    source: int
    target: int
    events: int
    next_layer: bool


@dataclass(frozen=True)
class Drawing:
    """Groups in program order, and the edges between their nodes by key."""

    name: str
    groups: tuple[Group, ...]
    edges: tuple[Edge, ...]


def draw(compilation: Compilation, level: Level = Level.LAYERS) -> Drawing:
    """The operators and events of a compilation. Empty tasks, if there are any, are a node of their own."""
    plan = compilation.plan
    count = [0] * len(plan.ops)
    for run in plan.runs:
        count[run.op] += run.count
    layer_of = [op.layer for op in compilation.graph.ops] + [-1] * (
        len(plan.ops) - len(compilation.graph.ops)
    )
    kinds = [plan.variants[op.variant].kind for op in plan.ops]
    jit = {run.op for run in plan.runs if run.jit}

    blocks: list[tuple[int, list[int]]] = []  # (layer, its operators), consecutive
    for number, layer in enumerate(layer_of):
        if not blocks or blocks[-1][0] != layer:
            blocks.append((layer, []))
        blocks[-1][1].append(number)

    groups: list[Group] = []
    node_of: dict[int, int] = {}  # operator -> key of its node, which is the first operator drawn there
    signature: list[tuple[int, int]] = []
    for layer, numbers in blocks:
        own = [(plan.ops[n].variant, count[n]) for n in numbers]
        last = groups[-1] if groups else None
        if level is Level.LAYERS and layer >= 0 and last and last.layers and own == signature:
            groups[-1] = Group((last.layers[0], layer), last.nodes)
            node_of.update({n: node.key for n, node in zip(numbers, last.nodes, strict=True)})
            continue
        nodes = tuple(Node(n, plan.ops[n].name, kinds[n], count[n], n in jit) for n in numbers)
        groups.append(Group((layer, layer) if layer >= 0 else None, nodes))
        node_of.update({n: n for n in numbers})
        signature = own
    return Drawing(plan.name, tuple(groups), _edges(compilation, node_of, layer_of))


def _edges(compilation: Compilation, node_of: dict[int, int], layer_of: list[int]) -> tuple[Edge, ...]:
    """Edges between nodes; of layers drawn as one, those of one layer are counted."""
    op_of = [op if op >= 0 else len(compilation.graph.ops) for op in compilation.tgraph.tasks.op.tolist()]
    between: dict[tuple[int, int], int] = defaultdict(int)
    for number, event in enumerate(compilation.tgraph.events):
        if number == START_EVENT:
            continue
        consumers = {op_of[task] for task in event.consumers}
        for source in {op_of[task] for task in event.producers}:
            for target in consumers:
                between[source, target] += 1
    drawn: dict[tuple[int, int, bool], int] = {}
    for (source, target), events in sorted(between.items()):
        crosses = layer_of[source] >= 0 and layer_of[target] > layer_of[source]
        folded = crosses and node_of[target] != target
        drawn.setdefault((node_of[source], node_of[target], folded), events)
    return tuple(Edge(s, t, events, folded) for (s, t, folded), events in drawn.items())
