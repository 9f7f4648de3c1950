"""What the runtime of kernels (`include/pk/lcsc`) can do, and why it cannot run a graph."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kgen.ir.kernel.all_gather import AllGather
from kgen.ir.kernel.all_reduce import AllReduce
from kgen.ir.kernel.all_to_all import AllToAll
from kgen.ir.kernel.constraint import ROW_BYTES
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import Transfer
from kgen.ir.problem import Problem
from kgen.ir.tensor import DType


class Reduce(StrEnum):
    """What becomes of a product that is one rank's summand: `pk::lcsc::Reduce`."""

    NONE = "none"
    SCATTER = "scatter"
    ALL = "all"


class Collective(StrEnum):
    """What a kernel without a product does: `pk::lcsc::Collective`."""

    GATHER = "gather"
    SCATTER = "scatter"
    ALL_REDUCE = "all_reduce"
    TO_COLUMNS = "to_columns"  # all-to-all of a tensor of which a rank has rows, and then columns
    TO_ROWS = "to_rows"  # and the way back

    @property
    def sums(self) -> bool:
        """Whether it adds up what ranks have; others only copy."""
        return self in (Collective.SCATTER, Collective.ALL_REDUCE)


class Copies(StrEnum):
    """When the copy engine gathers rows, and not registers: `copies_from` of `pk/lcsc/copies.hpp`."""

    NEVER = "never"
    BY_SIZE = "by_size"  # where a rank has COPIES_LEAST bytes of rows, and a device of its own
    ALWAYS = "always"


class Form(NamedTuple):
    """What a kernel does besides multiplying."""

    gather: bool
    reduce: Reduce


# Kernels with a product, by the kinds of the operators in order. Besides them there is each collective alone.
FORMS = {
    ("matmul",): Form(False, Reduce.NONE),
    ("all_gather", "matmul"): Form(True, Reduce.NONE),
    ("matmul", "reduce_scatter"): Form(False, Reduce.SCATTER),
    ("matmul", "all_reduce"): Form(False, Reduce.ALL),
}
ONE_SHOT_MOST = 1 << 20  # bytes of an all-reduce in one shot: pk::lcsc::small_most pieces
ONE_SHOT_BYTES = 512 * ROW_BYTES  # that each of its blocks adds up: pk::lcsc::small_pieces
COPIES_LEAST = 32 << 20  # bytes of a rank's rows from which on they are copied: pk::lcsc::copies_least
NARROW_MOST = 128  # rows to add up, of peers as well, of products that are read once: pk::lcsc::narrow::max_m
PIECE = ROW_BYTES // DType.BF16.itemsize  # elements that a thread of a collective moves at a time
MEMBERS = 2  # blocks of a cluster
GROUP = 8  # rows of pairs of tiles that are walked column by column
PACE = {
    Reduce.NONE: 8000,
    Reduce.SCATTER: 8000,
    Reduce.ALL: 8000,
}  # cycles between batches of a pusher, of 132 SMs
PUSHERS = 3  # communicator warps of a block


def form_of(graph: KernelGraph) -> Form:
    """What a graph with a product and without `refusals` does."""
    return FORMS[tuple(op.kind for op in graph.ops)]


def kept_rows(graph: KernelGraph) -> str | None:
    """The rows that an all_gather before the product brings, where they are an output too."""
    gathered = (op.out for op in graph.ops[:-1] if isinstance(op, AllGather))
    return next((name for name in gathered if name in graph.outputs), None)


def copies_of(graph: KernelGraph) -> Copies:
    """When the copy engine moves something, in a graph with a product and without `refusals`."""
    if graph.overlap.transfer is Transfer.COPY_ENGINE:
        return Copies.ALWAYS
    chosen = graph.overlap.transfer is None and form_of(graph).gather and not graph.overlap.inter_sm
    return Copies.BY_SIZE if chosen else Copies.NEVER


def in_network(graph: KernelGraph) -> bool:
    """Whether the network adds, in a graph without `refusals`: `pk::engine::NetworkAllReduce`."""
    return graph.overlap.transfer is Transfer.MULTIMEM


def collective_of(graph: KernelGraph) -> Collective:
    """What a graph without a product does."""
    (op,) = graph.ops
    if isinstance(op, AllToAll):
        return Collective.TO_COLUMNS if op.split == 1 else Collective.TO_ROWS
    if isinstance(op, AllReduce):
        return Collective.ALL_REDUCE
    return Collective.GATHER if isinstance(op, AllGather) else Collective.SCATTER


def refusals(graph: KernelGraph) -> list[Problem]:
    """Why the runtime cannot run a graph that is correct: sentences about operators.

    What it can do of `overlap` the frontend knows (`kgen.ir.kernel.overlap`).
    """
    return [*_form(graph), *_product(graph)]


def _form(graph: KernelGraph) -> Iterator[Problem]:
    kinds = tuple(op.kind for op in graph.ops)
    if graph.matmul is None and len(kinds) == 1:
        return
    if kinds in FORMS:
        there = [graph.ops[-1].out, *(op.out for op in graph.ops if isinstance(op, AllGather))]
        for name in graph.outputs:
            if name not in there:
                op = next(op for op in graph.ops if op.out == name)
                text = f"{op.name}: `{name}` as an output is not there yet"
                yield Problem(text, operator=op.name, expected=f"outputs: [{', '.join(there)}]")
    else:
        known = [i for i in range(len(kinds)) if any(form[: i + 1] == kinds[: i + 1] for form in FORMS)]
        wrong = min(len(known), len(kinds) - 1)
        what = f"{kinds[wrong]} after {kinds[wrong - 1]}" if wrong else kinds[wrong]
        forms = ", ".join("[" + ", ".join(form) + "]" for form in FORMS)
        expected = f"one collective, {forms}"
        yield Problem(f"{what} is not there yet", operator=graph.ops[wrong].name, expected=expected)


def _product(graph: KernelGraph) -> Iterator[Problem]:
    op = graph.matmul
    if op is None:
        return
    out = graph.types[op.out]
    for name in (op.bias, op.residual):
        if name is not None and out.partial and len(graph.ops) == 1:
            text = (
                f"{op.name}: `{name}` is added once, to the sum over the ranks, but `{op.out}` is partial, "
                "and nothing here adds it up"
            )
            expected = f"a reduce_scatter or an all_reduce of `{op.out}`, or no `{name}`"
            yield Problem(text, operator=op.name, expected=expected)
    if out.shard == 0:
        text = f"{op.name}: a product of rows that are sharded (`{op.x}`) is not there yet without all_gather"
        yield Problem(text, operator=op.name, expected=f"an all_gather of `{op.x}` before it")
