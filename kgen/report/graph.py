"""Drawings of a compilation: Graphviz, Mermaid, and a web page that needs nothing else."""

from __future__ import annotations

from kgen.passes.pipeline import Compilation
from kgen.report.drawing import Edge, Level, Node, draw
from kgen.report.page import page


def to_dot(compilation: Compilation, level: Level = Level.LAYERS) -> str:
    """A Graphviz digraph; layers are clusters."""
    drawing = draw(compilation, level)
    lines = [
        f"digraph {_quoted(drawing.name)} {{",
        '  node [shape=box, style=rounded, fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    for i, group in enumerate(drawing.groups):
        nodes = [f"  n{node.key} [label={_quoted(_label(node, chr(10)))}];" for node in group.nodes]
        if group.layers is None:
            lines += nodes
        else:
            lines += [f"  subgraph cluster_{i} {{", f"    label={_quoted(group.title)};"]
            lines += [f"  {node}" for node in nodes] + ["  }"]
    for edge in drawing.edges:
        style = ", style=dashed, constraint=false" if edge.next_layer else ""
        lines.append(f"  n{edge.source} -> n{edge.target} [label={_quoted(_events(edge))}{style}];")
    return "\n".join([*lines, "}"]) + "\n"


def to_mermaid(compilation: Compilation, level: Level = Level.LAYERS) -> str:
    """A Mermaid flowchart; layers are subgraphs."""
    drawing = draw(compilation, level)
    lines = ["flowchart TD"]
    for i, group in enumerate(drawing.groups):
        nodes = [f'  n{node.key}["{_label(node, "<br>")}"]' for node in group.nodes]
        if group.layers is None:
            lines += nodes
        else:
            lines += [f'  subgraph g{i}["{group.title}"]', *(f"  {node}" for node in nodes), "  end"]
    for edge in drawing.edges:
        arrow = "-.->" if edge.next_layer else "-->"
        lines.append(f'  n{edge.source} {arrow}|"{_events(edge)}"| n{edge.target}')
    return "\n".join(lines) + "\n"


def to_html(compilation: Compilation, level: Level = Level.LAYERS) -> str:
    """A page with everything in it: no scripts from elsewhere, no fonts, no network."""
    return page(compilation, draw(compilation, level))


def _label(node: Node, newline: str) -> str:
    queue = ", through the queue" if node.jit else ""
    return f"{node.name}{newline}{node.kind}: {node.tasks:,} task{'s' * (node.tasks != 1)}{queue}"


def _events(edge: Edge) -> str:
    text = f"{edge.events:,} event{'s' * (edge.events != 1)}"
    return f"{text}, next layer" if edge.next_layer else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
