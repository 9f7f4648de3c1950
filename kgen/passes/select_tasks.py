"""Pass 6: the C++ implementation of each operator's tasks, from the table of task templates."""

from __future__ import annotations

from kgen.ir.graph import Graph
from kgen.ir.operator import Operator
from kgen.plan.plan import Variant
from kgen.plan.task_templates import EMPTY_KIND, TEMPLATES, Selection
from kgen.tgraph.tgraph import EMPTY, TGraph


def select_tasks(graph: Graph, tgraph: TGraph) -> Selection:
    """Pick an instantiation for every operator; operators with equal constants and slots share one."""
    numbers: dict[Variant, int] = {}
    variant_of = []
    tensors_of = []
    for op in graph.ops:
        variant, tensors = _instantiate(op, graph)
        variant_of.append(numbers.setdefault(variant, len(numbers)))
        tensors_of.append(tensors)
    empty = None
    if (tgraph.tasks.op == EMPTY).any():
        row = TEMPLATES[EMPTY_KIND]
        empty = numbers.setdefault(Variant(row.kind, row.cpp_type, row.header, (), ()), len(numbers))
    return Selection(tuple(numbers), tuple(variant_of), tuple(tensors_of), empty)


def _instantiate(op: Operator, graph: Graph) -> tuple[Variant, tuple[str, ...]]:
    row = TEMPLATES[op.kind]
    values = op.constants(graph)
    named = [(slot.rstrip("?"), getattr(op, slot.rstrip("?"))) for slot in row.slots]
    used = [(slot, tensor) for slot, tensor in named if tensor is not None]
    variant = Variant(
        kind=row.kind,
        cpp_type=row.cpp_type,
        header=row.header,
        constants=tuple((name, values[name]) for name in row.constants),
        operands=tuple(slot for slot, _ in used),
    )
    return variant, tuple(tensor for _, tensor in used)
