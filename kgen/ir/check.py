"""What must hold of an operator graph before it is compiled."""

from __future__ import annotations

from kgen.ir.attention import Attention
from kgen.ir.graph import Graph
from kgen.ir.linear import Logits
from kgen.ir.problem import Problem
from kgen.ir.region import Layout
from kgen.ir.sample import Advance, Sample
from kgen.ir.tensor import Space

MAX_OPERANDS = 8  # slots of mpk::OpDesc
MAX_OPS = (1 << 16) - 1  # mpk::Task::op is 16 bits, and one number is kept for empty tasks


def check_graph(graph: Graph) -> list[str]:
    """Everything that is wrong with a graph, as sentences; nothing when it can be compiled."""
    problems = _check_runtime(graph)
    known = True
    for op in graph.ops:
        missing = [
            value
            for slot, value in vars(op).items()
            if isinstance(value, str) and slot != "name" and value not in graph.by_name
        ]
        problems += [
            Problem(f"{op.name}: there is no tensor `{tensor}`", operator=op.name) for tensor in missing
        ]
        known = known and not missing
    if not known:
        return problems
    for op in graph.ops:
        problems += [Problem(text, operator=op.name) for text in op.check(graph)]
    return problems + _check_roles(graph) + _check_buffers(graph)


def _check_runtime(graph: Graph) -> list[str]:
    r = graph.runtime
    problems: list[str] = [
        Problem(f"runtime: {name} must be at least 1, not {getattr(r, name)}", setting=name)
        for name in ("batch", "context", "kv_page", "rows", "workers")
        if getattr(r, name) < 1
    ]
    if r.rows < r.batch:
        text = f"runtime: {r.rows} rows cannot carry a token of each of {r.batch} sequences"
        problems.append(Problem(text, setting="rows"))
    return problems


def _check_roles(graph: Graph) -> list[str]:
    problems: list[str] = []
    for family, where in ((Logits, "logits"), (Sample, "sample"), (Advance, "advance")):
        count = sum(isinstance(op, family) for op in graph.ops)
        if count != 1:
            problems.append(f"a graph has one {where} operator, not {count}")
    if graph.ops and not isinstance(graph.ops[-1], Advance):
        problems.append(f"{graph.ops[-1].name}: the last operator must be advance")
    if len(graph.ops) > MAX_OPS:
        problems.append(f"{len(graph.ops)} operators are more than {MAX_OPS}")
    attention = [op for op in graph.ops if isinstance(op, Attention)]
    layers = [op.kv_layer for op in attention]
    if layers != list(range(len(layers))):
        problems.append(f"attention operators must number their KV layers from 0 in order, not {layers}")
    for op in attention[1:]:
        if (op.kv_heads, op.head) != (attention[0].kv_heads, attention[0].head):
            text = f"{op.name}: KV heads and head size must be those of {attention[0].name}"
            problems.append(Problem(text, operator=op.name))
    return problems


def _check_buffers(graph: Graph) -> list[str]:
    problems: list[str] = []
    layouts: dict[str, tuple[Layout, str]] = {}
    for op in graph.ops:
        operands = op.operands(graph)
        if len(operands) > MAX_OPERANDS:
            text = f"{op.name}: {len(operands)} operands are more than {MAX_OPERANDS}"
            problems.append(Problem(text, operator=op.name))
        for o in operands:
            layout, first = layouts.setdefault(o.tensor, (o.layout, op.name))
            if layout is not o.layout:
                here = f"{o.layout.value} in {op.name}"
                text = f"`{o.tensor}` is used by {layout.value} in {first} but by {here}"
                problems.append(Problem(text, operator=op.name))
            expected = Space.WEIGHT if o.layout is Layout.WEIGHT else Space.ACTIVATION
            if graph.by_name[o.tensor].space is not expected:
                text = f"{op.name}: {o.slot} `{o.tensor}` must be in {expected} memory"
                problems.append(Problem(text, operator=op.name))
    return problems
