"""A drawing as one web page: the passes' figures, and operators from top to bottom with their events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from kgen.passes.pipeline import Compilation
from kgen.report.drawing import Drawing, Edge, Node
from kgen.report.explain import ExplainReport, explain

_NODE_WIDTH, _NODE_HEIGHT, _GAP = 300, 52, 44
_LEFT, _GROUP_PADDING, _LANE = 40, 22, 26

_LEGEND = (
    "A box is an operator and the tasks that it was cut into. An arrow is a set of events: tasks at its tip "
    "start once the tasks that their event counts are done. Shaded tasks go through a queue to whichever "
    "worker is free; all others are in the list of one worker."
)
_STYLE = """
:root { --ink: #1b2430; --soft: #5c6b7f; --line: #c3ccd8; --paper: #fff; --box: #f3f6fa; --queue: #fdf0dc; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4eaf2; --soft: #94a3b8; --line: #42506a; }
  :root { --paper: #131a24; --box: #1d2735; --queue: #40341f; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
td, th { padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { max-width: 100%; height: auto; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
svg .soft { fill: var(--soft); font-size: 12px; }
.node { fill: var(--box); stroke: var(--line); }
.queue { fill: var(--queue); }
.group { fill: none; stroke: var(--line); stroke-dasharray: 6 4; }
.edge { fill: none; stroke: var(--soft); stroke-width: 1.3; }
.next { stroke-dasharray: 4 4; }
"""


@dataclass(frozen=True)
class _Place:
    """Where a node is: its top, and its number from the top."""

    top: int
    row: int

    @property
    def middle(self) -> int:
        return self.top + _NODE_HEIGHT // 2


def page(compilation: Compilation, drawing: Drawing) -> str:
    """The page. A reader needs nothing but a browser."""
    title = escape(drawing.name)
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title>',
            f"<style>{_STYLE}</style></head><body>",
            f"<h1>{title}</h1>",
            _figures(explain(compilation)),
            f"<p>{_LEGEND}</p>",
            *_picture(drawing),
            "</body></html>\n",
        ]
    )


def _figures(report: ExplainReport) -> str:
    rows = (
        ("operators", f"{report.operators:,}"),
        ("tasks", f"{report.tasks:,}"),
        ("tasks per operator", f"{report.tasks_per_operator:.1f}"),
        ("pairs of tasks in order", f"{report.pairs:,}"),
        ("events", f"{report.events:,}"),
        ("empty tasks", f"{report.empty_tasks:,}"),
        ("bytes of the task list, with lists of successors", f"{report.bytes_before:,}"),
        ("bytes of the task list, with events", f"{report.bytes_after:,}"),
    )
    cells = "".join(f'<tr><td>{name}</td><td class="number">{value}</td></tr>' for name, value in rows)
    return f"<table>{cells}</table>"


def _picture(drawing: Drawing) -> Iterator[str]:
    places: dict[int, _Place] = {}
    boxes: list[str] = []
    top = 10
    for group in drawing.groups:
        if group.layers is not None:
            top += _GROUP_PADDING + 14
        first = top
        for node in group.nodes:
            places[node.key] = _Place(top, len(places))
            boxes += _node(node, top)
            top += _NODE_HEIGHT + _GAP
        if group.layers is not None:
            height = top - first - _GAP + 2 * _GROUP_PADDING + 14
            x, y = _LEFT - _GROUP_PADDING, first - _GROUP_PADDING - 14
            width = _NODE_WIDTH + 2 * _GROUP_PADDING
            boxes.append(f'<rect class="group" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>')
            boxes.append(f'<text class="soft" x="{x + 10}" y="{y + 18}">{escape(group.title)}</text>')
            top += _GROUP_PADDING
    arrows, lanes = _arrows(drawing, places)
    width = _LEFT + _NODE_WIDTH + _GROUP_PADDING + (lanes + 1) * _LANE + 130
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" height="{top}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#8794a6"/></marker></defs>'
    )
    yield from boxes
    yield from arrows
    yield "</svg>"


def _node(node: Node, top: int) -> list[str]:
    style, size = "node queue" if node.jit else "node", f'width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}"'
    tasks = f"{escape(node.kind)}, {node.tasks:,} task{'s' * (node.tasks != 1)}"
    return [
        f'<rect class="{style}" x="{_LEFT}" y="{top}" {size} rx="7"/>',
        f'<text x="{_LEFT + 12}" y="{top + 21}">{escape(node.name)}</text>',
        f'<text class="soft" x="{_LEFT + 12}" y="{top + 40}">{tasks}</text>',
    ]


def _arrows(drawing: Drawing, places: dict[int, _Place]) -> tuple[list[str], int]:
    """Straight arrows between neighbours, others through lanes at the right; and how many lanes there are."""
    result: list[str] = []
    ends: list[int] = []  # lowest row that each lane is taken to
    center, right = _LEFT + _NODE_WIDTH // 2, _LEFT + _NODE_WIDTH
    for edge in sorted(drawing.edges, key=lambda e: (places[e.source].row, places[e.target].row)):
        source, target = places[edge.source], places[edge.target]
        if target.row == source.row + 1 and not edge.next_layer:
            y1, y2 = source.top + _NODE_HEIGHT, target.top - 2
            result.append(f'<path class="edge" marker-end="url(#tip)" d="M{center} {y1} L{center} {y2}"/>')
            result.append(
                f'<text class="soft" x="{center + 8}" y="{(y1 + y2) // 2 + 4}">{_events(edge)}</text>'
            )
            continue
        low, high = sorted((source.row, target.row))
        lane = next((i for i, end in enumerate(ends) if end <= low), len(ends))
        ends[lane : lane + 1] = [high]
        x = right + _GROUP_PADDING + (lane + 1) * _LANE
        style = "edge next" if edge.next_layer else "edge"
        d = f"M{right} {source.middle + 8} H{x} V{target.middle - 8} H{right + 2}"
        result.append(f'<path class="{style}" marker-end="url(#tip)" d="{d}"/>')
        middle = (source.middle + target.middle) // 2
        result.append(f'<text class="soft" x="{x + 5}" y="{middle}">{_events(edge)}</text>')
    return result, len(ends)


def _events(edge: Edge) -> str:
    text = f"{edge.events:,} event{'s' * (edge.events != 1)}"
    return f"{text}, next layer" if edge.next_layer else text
