"""From a placed tGraph to the tables of a plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from kgen.ir.attention import Attention
from kgen.ir.graph import Graph
from kgen.ir.linear import Logits
from kgen.ir.sample import Advance
from kgen.ir.tensor import Space, Tensor
from kgen.plan.plan import EventRow, OpRow, Plan, TaskRow, TensorRow
from kgen.plan.runs import encode_runs
from kgen.plan.task_templates import EMPTY_KIND, Selection
from kgen.tgraph.tgraph import EMPTY, TGraph, single

ALIGN = 256  # bytes, of every tensor


def build_plan(graph: Graph, tgraph: TGraph, selection: Selection) -> Plan:
    """Lay out the tensors and write down operators, tasks and events. Needs a placed graph."""
    tensors, sizes = lay_out(graph.tensors)
    number = {t.name: i for i, t in enumerate(tensors)}
    ops = [
        OpRow(
            name=op.name,
            variant=variant,
            layer=op.kv_layer if isinstance(op, Attention) else op.layer,
            operands=tuple(number[t] for t in names),
        )
        for op, variant, names in zip(graph.ops, selection.variant_of, selection.tensors_of, strict=True)
    ]
    if selection.empty is not None:
        ops.append(OpRow(EMPTY_KIND, selection.empty, -1, ()))
    attention = [op for op in graph.ops if isinstance(op, Attention)]
    advance = next(op for op in graph.ops if isinstance(op, Advance))
    logits = next(op for op in graph.ops if isinstance(op, Logits))
    assert tgraph.placement is not None
    return Plan(
        name=graph.name,
        digest=weights_digest(graph.name, tensors),
        runtime=graph.runtime,
        dims=tuple(graph.dims.items()),
        tensors=tensors,
        variants=selection.variants,
        ops=tuple(ops),
        runs=encode_runs(task_rows(tgraph, len(graph.ops)), graph.runtime.workers),
        events=tuple(
            EventRow(len(e.producers), e.consumers[0] if e.consumers else 0, len(e.consumers))
            for e in tgraph.events
        ),
        queue_capacity=tgraph.placement.queue_capacity,
        weight_bytes=sizes[Space.WEIGHT],
        arena_bytes=sizes[Space.ACTIVATION],
        vocab=graph.by_name[logits.weight].rows,
        kv_layers=len(attention),
        kv_heads=attention[0].kv_heads if attention else 0,
        head=attention[0].head if attention else 0,
        tokens=number[advance.tokens],
        sampled=number[advance.sampled],
        logits=number[logits.out],
    )


def lay_out(tensors: Sequence[Tensor]) -> tuple[tuple[TensorRow, ...], Mapping[Space, int]]:
    """Give every tensor its own place in its space, in order; also the bytes of each space."""
    end = dict.fromkeys(Space, 0)
    rows = []
    for t in tensors:
        rows.append(
            TensorRow(
                t.name, t.space, t.dtype, t.shape, t.rows, t.cols, t.stride, end[t.space], tuple(t.sources)
            )
        )
        end[t.space] += -(-t.bytes // ALIGN) * ALIGN
    return tuple(rows), end


def weights_digest(name: str, tensors: Sequence[TensorRow]) -> str:
    """sha256 over what a packed weight file must agree with the plan about."""
    weights = [
        [t.name, t.dtype.value, list(t.shape), t.stride, t.offset] for t in tensors if t.space is Space.WEIGHT
    ]
    text = json.dumps([name, weights], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def task_rows(tgraph: TGraph, empty_op: int) -> list[TaskRow]:
    """The tasks of a placed graph in linear order; empty tasks get the operator `empty_op`."""
    assert tgraph.placement is not None
    t = tgraph.tasks
    columns = (
        [empty_op if op == EMPTY else op for op in t.op.tolist()],
        tgraph.placement.jit.tolist(),
        t.begin.tolist(),
        t.end.tolist(),
        t.index.tolist(),
        single(tgraph.waits()).tolist(),
        single(tgraph.triggers()).tolist(),
        tgraph.placement.slot.tolist(),
    )
    return [TaskRow(*row) for row in zip(*columns, strict=True)]
