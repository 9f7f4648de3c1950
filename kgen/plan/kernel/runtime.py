"""What the runtime of kernels (`include/pk/lcsc`) can do, and why it cannot run a graph."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import Schedule, Tile, Transfer
from kgen.ir.problem import Problem


class Reduce(StrEnum):
    """What becomes of a product that is one rank's summand: `pk::lcsc::Reduce`."""

    NONE = "none"
    SCATTER = "scatter"
    ALL = "all"


class Form(NamedTuple):
    """What a kernel does besides multiplying."""

    gather: bool
    reduce: Reduce


# By the kinds of the operators, in order: what there is. Everything else is refused.
FORMS = {
    ("matmul",): Form(False, Reduce.NONE),
    ("all_gather", "matmul"): Form(True, Reduce.NONE),
    ("matmul", "reduce_scatter"): Form(False, Reduce.SCATTER),
    ("matmul", "all_reduce"): Form(False, Reduce.ALL),
}
TILE = Tile(128, 256, 64)
STAGES = range(2, 5)
MEMBERS = 2  # blocks of a cluster
GROUP = 8  # rows of pairs of tiles that are walked column by column
PACE = {
    Reduce.NONE: 0,
    Reduce.SCATTER: 8000,
    Reduce.ALL: 8000,
}  # cycles between batches of a pusher, of 132 SMs
MAX_WORLD = 16  # pk::lcsc::max_ranks
PUSHERS = 3  # communicator warps of a block
SCHEDULES = (Schedule.INTRA_SM,)  # warps of the SMs that compute also push
TRANSFERS = (Transfer.REGISTER,)


def form_of(graph: KernelGraph) -> Form:
    """What a graph without `refusals` does."""
    return FORMS[tuple(op.kind for op in graph.ops)]


def refusals(graph: KernelGraph) -> list[Problem]:
    """Why the runtime cannot run a graph that is correct: sentences about operators or `overlap.*`."""
    return [*_form(graph), *_product(graph), *_overlap(graph)]


def _form(graph: KernelGraph) -> Iterator[Problem]:
    kinds = tuple(op.kind for op in graph.ops)
    if kinds in FORMS:
        last = graph.ops[-1]
        for name in graph.outputs:
            if name != last.out:
                op = next(op for op in graph.ops if op.out == name)
                yield Problem(
                    f"{op.name}: `{name}` as an output is not there yet, only `{last.out}`", operator=op.name
                )
    else:
        known = [i for i in range(len(kinds)) if any(form[: i + 1] == kinds[: i + 1] for form in FORMS)]
        wrong = min(len(known), len(kinds) - 1)
        what = f"{kinds[wrong]} after {kinds[wrong - 1]}" if wrong else kinds[wrong]
        alone = " alone" if len(kinds) == 1 else ""
        forms = ", ".join("[" + ", ".join(form) + "]" for form in FORMS)
        yield Problem(
            f"{what}{alone} is not there yet; generated kernels are {forms}", operator=graph.ops[wrong].name
        )
    if not any(world <= MAX_WORLD for world in graph.worlds):
        text = f"a world of {graph.world} is not there yet, only up to {MAX_WORLD} ranks"
        yield Problem(text, setting="world")


def _product(graph: KernelGraph) -> Iterator[Problem]:
    op = graph.matmul
    if op is None:
        return
    out = graph.types[op.out]
    for name in (op.bias, op.residual):
        if name is not None and out.partial:
            text = f"{op.name}: `{name}` on a product that is partial is not there yet"
            yield Problem(text, operator=op.name)
    if out.shard == 0:
        text = f"{op.name}: a product of rows that are sharded (`{op.x}`) is not there yet without all_gather"
        yield Problem(text, operator=op.name)


def _overlap(graph: KernelGraph) -> Iterator[Problem]:
    asked = graph.overlap
    if asked.schedule not in (None, *SCHEDULES):
        yield _choice("schedule", asked.schedule, ", ".join(SCHEDULES))
    elif asked.comm_sms is not None:
        yield _choice("comm_sms", str(asked.comm_sms), "warps of every SM communicate")
    if asked.transfer not in (None, *TRANSFERS):
        yield _choice("transfer", asked.transfer, ", ".join(TRANSFERS))
    if asked.tile not in (None, TILE):
        yield _choice("tile", str(list(asked.tile or ())), str(list(TILE)))
    if asked.stages is not None and asked.stages not in STAGES:
        yield _choice("stages", str(asked.stages), f"{STAGES[0]} to {STAGES[-1]}")


def _choice(key: str, asked: str | None, there: str) -> Problem:
    return Problem(f"overlap.{key}: {asked} is not there yet, only {there}", setting=f"overlap.{key}")
