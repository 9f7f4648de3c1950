"""The plan of an overlapped kernel: everything that a template prints."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from kgen.ir.kernel.dims import Axis, Range
from kgen.ir.kernel.graph import KernelGraph
from kgen.ir.kernel.matmul import Matmul
from kgen.ir.kernel.overlap import Schedule, Tile, Transfer
from kgen.ir.tensor import DType
from kgen.plan.kernel.choice import Choice
from kgen.plan.kernel.runtime import GROUP, MAX_WORLD, MEMBERS, PACE, Reduce, form_of
from kgen.plan.kernel.tiles import TileGrid


class Role(StrEnum):
    """What a tensor of the caller is to the product: the fields of `pk::engine::Call`."""

    ROWS = "rows"  # the first operand
    WEIGHT = "weight"
    UP = "up"
    BIAS = "bias"
    RESIDUAL = "residual"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class DimRow:
    """A size: compiled in where lo is hi, else given at the call."""

    name: str
    lo: int
    hi: int


@dataclass(frozen=True, slots=True)
class Part:
    """An axis of the product. split: each rank has an equal part of it."""

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


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """Everything a generated project is made of.

    worlds: the numbers of ranks with which the kernel runs. m, n, k: the axes of the product; the rows that
    are gathered or scattered are not split, since every rank's product has all of them.
    """

    name: str
    digest: str  # sha256 hex over all the rest
    worlds: tuple[int, ...]
    dims: tuple[DimRow, ...]
    tensors: tuple[TensorRow, ...]
    dtype: DType
    m: Part
    n: Part
    k: Part
    gather: bool
    reduce: Reduce
    deterministic: bool
    bias: bool
    residual: bool
    silu_mul: bool
    tile: Tile
    stages: int
    group: int
    members: int
    pace: int
    schedule: Schedule
    transfer: Transfer

    @property
    def world(self) -> Range:
        """The smallest and the largest number of ranks."""
        return Range(self.worlds[0], self.worlds[-1])

    @property
    def grid(self) -> TileGrid:
        """How the output is cut into tiles."""
        return TileGrid(self.tile.m, self.tile.n, self.members, self.group)


def build_kernel_plan(graph: KernelGraph, choice: Choice) -> KernelPlan:
    """The plan of a graph that the runtime does not refuse."""
    form, product = form_of(graph), graph.matmul
    assert product is not None
    x, weight = graph.types[product.x], graph.types[product.weight]
    axes = {"M": x.shape[0], "N": weight.shape[0], "K": x.shape[1]}
    names = {role: _name(role, axis, graph) for role, axis in axes.items()}
    extents = dict(graph.dims) | {names[role]: axis for role, axis in axes.items() if isinstance(axis, int)}
    plan = KernelPlan(
        name=graph.name,
        digest="",
        worlds=tuple(world for world in graph.worlds if world <= MAX_WORLD),
        dims=tuple(
            DimRow(name, known, known) if isinstance(known, int) else DimRow(name, *known)
            for name, known in extents.items()
        ),
        tensors=tuple(_tensors(graph, product, names)),
        dtype=x.dtype,
        m=Part(names["M"], False),
        n=Part(names["N"], weight.shard == 0),
        k=Part(names["K"], x.shard == 1),
        gather=form.gather,
        reduce=form.reduce,
        deterministic=graph.deterministic,
        bias=product.bias is not None,
        residual=product.residual is not None,
        silu_mul=product.up is not None,
        tile=choice.tile,
        stages=choice.stages,
        group=GROUP,
        members=MEMBERS,
        pace=PACE[form.reduce],
        schedule=choice.schedule,
        transfer=choice.transfer,
    )
    text = json.dumps(asdict(plan), separators=(",", ":"))
    return replace(plan, digest=hashlib.sha256(text.encode()).hexdigest())


def _name(role: str, axis: Axis, graph: KernelGraph) -> str:
    """The dim of an axis; one that is a number gets a dim of its own."""
    if isinstance(axis, str):
        return axis
    while role in graph.dims:
        role += "_"
    return role


_AXES = {
    Role.ROWS: ("M", "K"),
    Role.WEIGHT: ("N", "K"),
    Role.UP: ("N", "K"),
    Role.BIAS: ("N",),
    Role.RESIDUAL: ("M", "N"),
    Role.OUTPUT: ("M", "N"),
}


def _tensors(graph: KernelGraph, product: Matmul, names: Mapping[str, str]) -> Iterator[TensorRow]:
    """In the order of the graph, the output last."""
    roles = {name: Role.ROWS if slot == "x" else Role(slot) for slot, name in product.reads.items()}
    roles |= {op.reads["x"]: Role.ROWS for op in graph.ops if op.out == product.x}
    for name in (*graph.inputs, *graph.outputs):
        role, type_ = roles.get(name, Role.OUTPUT), graph.types[name]
        yield TensorRow(name, role, type_.dtype, tuple(names[axis] for axis in _AXES[role]), type_.shard)
