"""The plan of a kernel: everything that a template prints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from kgen.ir.kernel.dims import Axis, Range
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.overlap import Schedule, Tile, Transfer
from kgen.ir.tensor import DType
from kgen.plan.kernel.choice import Choice, ProductChoice
from kgen.plan.kernel.runtime import (
    COPIES_LEAST,
    GROUP,
    MEMBERS,
    NARROW_MOST,
    PACE,
    Collective,
    Copies,
    Reduce,
    collective_of,
    copies_of,
    form_of,
    kept_rows,
)
from kgen.plan.kernel.tiles import TileGrid


class Role(StrEnum):
    """What a tensor of the caller is to the kernel: the fields of `pk::engine::Call`."""

    ROWS = "rows"  # the first operand, or that of a collective
    WEIGHT = "weight"
    UP = "up"
    BIAS = "bias"
    RESIDUAL = "residual"
    GATHERED = "gathered"  # an output: the first operand of all ranks
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class DimRow:
    """A size: compiled in where lo is hi, else given at the call."""

    name: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Part:
    """An axis of a matrix. split: each rank has an equal part of it."""

    dim: str
    split: bool


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor that the caller gives.

    shape: dims, of all ranks together. shard: the axis of which a rank has its block; None: it has all of it.
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[str, ...]
    shard: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """Everything a generated project is made of.

    worlds: the numbers of ranks with which the kernel runs. m, n: the axes of the output; rows that ranks
    share are dealt and not split: they may be any number.
    """

    name: str
    digest: str  # sha256 hex over all the rest
    worlds: tuple[int, ...]
    dims: tuple[DimRow, ...]
    tensors: tuple[TensorRow, ...]
    dtype: DType
    m: Part
    n: Part
    deterministic: bool
    schedule: Schedule | None  # None: there is nothing to overlap with, or no SM communicates
    transfer: Transfer  # with Copies.BY_SIZE that of small calls

    @property
    def world(self) -> Range:
        """The smallest and the largest number of ranks."""
        return Range(self.worlds[0], self.worlds[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductPlan(KernelPlan):
    """A product, and what ranks exchange before it or after it. m, n, k: the axes of a rank's product."""

    k: Part
    gather: bool
    keep_rows: bool  # the gathered rows are an output
    reduce: Reduce
    bias: bool
    residual: bool
    silu_mul: bool
    tile: Tile
    stages: int
    group: int
    members: int
    pace: int
    copies: Copies
    comm_sms: int  # SMs that only communicate; 0: all compute

    @property
    def grid(self) -> TileGrid:
        """How the output is cut into tiles."""
        return TileGrid(self.tile.m, self.tile.n, self.members, self.group)

    def moved_by(self, size: int) -> Transfer:
        """What gathers so many bytes of each rank, or sends summands, where no ranks share a device."""
        copied = self.copies is Copies.BY_SIZE and size >= COPIES_LEAST
        return Transfer.COPY_ENGINE if copied else self.transfer

    def narrow(self, m: int, world: int) -> bool:
        """Whether a call has so few rows that a GPU reads the weight once, and exchanges sums in one shot."""
        if self.keep_rows or self.copies is Copies.ALWAYS:
            return False
        return m * (1 if self.reduce is Reduce.NONE else max(1, world - 1)) <= NARROW_MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivePlan(KernelPlan):
    """A collective by itself. n is split where a rank has columns, before or after."""

    collective: Collective


def build_kernel_plan(graph: KernelGraph, choice: Choice) -> KernelPlan:
    """The plan of a graph that the runtime does not refuse."""
    plan = _product(graph, choice) if isinstance(choice, ProductChoice) else _collective(graph, choice)
    text = json.dumps(asdict(plan), sort_keys=True, separators=(",", ":"))
    return replace(plan, digest=hashlib.sha256(text.encode()).hexdigest())


def _product(graph: KernelGraph, choice: ProductChoice) -> ProductPlan:
    form, product = form_of(graph), graph.matmul
    assert product is not None
    x, weight = graph.types[product.x], graph.types[product.weight]
    axes = {"M": x.shape[0], "N": weight.shape[0], "K": x.shape[1]}
    roles = {name: Role.ROWS if slot == "x" else Role(slot) for slot, name in product.reads.items()}
    roles |= {op.reads["x"]: Role.ROWS for op in graph.ops if op.out == product.x}
    kept = kept_rows(graph)
    if kept is not None:
        roles[kept] = Role.GATHERED
    return ProductPlan(
        **_shared(graph, choice, axes, roles),
        n=Part(_name("N", axes["N"], graph), weight.shard == 0),
        k=Part(_name("K", axes["K"], graph), x.shard == 1),
        gather=form.gather,
        keep_rows=kept is not None,
        reduce=form.reduce,
        bias=product.bias is not None,
        residual=product.residual is not None,
        silu_mul=product.up is not None,
        tile=choice.tile,
        stages=choice.stages,
        group=GROUP,
        members=MEMBERS,
        pace=0 if choice.comm_sms else PACE[form.reduce],  # where nothing is computed, no load is in the way
        copies=copies_of(graph),
        comm_sms=choice.comm_sms,
    )


def _collective(graph: KernelGraph, choice: Choice) -> CollectivePlan:
    (op,) = graph.ops
    x, out = op.reads["x"], op.out
    axes = dict(zip("MN", graph.types[x].shape, strict=True))
    return CollectivePlan(
        **_shared(graph, choice, axes, {x: Role.ROWS}),
        n=Part(_name("N", axes["N"], graph), 1 in (graph.types[x].shard, graph.types[out].shard)),
        collective=collective_of(graph),
    )


def _shared(
    graph: KernelGraph, choice: Choice, axes: Mapping[str, Axis], roles: Mapping[str, Role]
) -> dict[str, Any]:
    """The fields of every plan, all but n. roles: of inputs."""
    names = {role: _name(role, axis, graph) for role, axis in axes.items()}
    extents = dict(graph.dims) | {names[role]: axis for role, axis in axes.items() if isinstance(axis, int)}
    return {
        "name": graph.name,
        "digest": "",
        "worlds": graph.worlds,
        "dims": tuple(
            DimRow(name, known, known) if isinstance(known, int) else DimRow(name, *known)
            for name, known in extents.items()
        ),
        "tensors": tuple(_tensors(graph, roles, names)),
        "dtype": graph.types[graph.outputs[0]].dtype,
        "m": Part(names["M"], False),
        "deterministic": graph.deterministic,
        "schedule": choice.schedule,
        "transfer": choice.transfer,
    }


def _name(role: str, axis: Axis, graph: KernelGraph) -> str:
    """The dim of an axis; one that is a number gets a dim of its own."""
    if isinstance(axis, str):
        return axis
    while role in graph.dims:
        role += "_"
    return role


_AXES = {
    Role.ROWS: ("M", "K"),  # of a collective: M and N
    Role.WEIGHT: ("N", "K"),
    Role.UP: ("N", "K"),
    Role.BIAS: ("N",),
    Role.RESIDUAL: ("M", "N"),
    Role.GATHERED: ("M", "K"),
    Role.OUTPUT: ("M", "N"),
}


def _tensors(graph: KernelGraph, roles: Mapping[str, Role], names: Mapping[str, str]) -> Iterator[TensorRow]:
    """In the order of the graph, outputs last."""
    for name in (*graph.inputs, *graph.outputs):
        role, type_ = roles.get(name, Role.OUTPUT), graph.types[name]
        axes = _AXES[role] if role is not Role.ROWS or "K" in names else _AXES[Role.OUTPUT]
        yield TensorRow(name, role, type_.dtype, tuple(names[axis] for axis in axes), type_.shard)
