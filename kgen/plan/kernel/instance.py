"""A kernel at given sizes: every task of every rank in a few calls, one after the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kgen.ir.region import Access
from kgen.plan.kernel.runtime import Collective, Reduce
from kgen.plan.kernel.tiles import Shards, TileGrid, TileOrder

BUFFERS = 2  # of everything that peers write, used in turns: a call and the next may overlap


class Kind(StrEnum):
    """What a task does."""

    PUSH_ROWS = "push rows"  # a block of the rank's rows, to a peer that gathers them
    COPY_ROWS = "copy rows"  # the same by the copy engine
    KEEP_ROWS = "keep rows"  # a block of the gathered rows, to the caller's tensor
    MULTIPLY = "multiply"  # a tile of the rank's product
    PUSH_TILE = "push tile"  # the rank's summand of a tile, to the owner of the tile
    REDUCE = "reduce"  # a tile: the owner's summand and what its peers have pushed
    PUSH_SUM = "push sum"  # a tile that is added up, from its owner to a peer's output
    USE = "use"  # of the output, by the caller, between two calls

    # Of a collective by itself.
    FILL = "fill"  # the input, by the caller, before a call
    MOVE = "move"  # from the rank's input to a peer's output, or its share of the sum to whoever gets that
    PUSH_SUMMAND = "push summand"  # a block of pieces, to a peer's workspace
    ADD = "add"  # a block of pieces: the rank's summand and what its peers have pushed
    COPY_IN = "copy in"  # the input, to where the network reaches it
    COPY_OUT = "copy out"  # the output, from where the network has sent it


@dataclass(frozen=True, slots=True)
class Task:
    """A task of `rank`, which for a push brings something to `peer`; else peer is rank.

    row, rows, column, columns: what it is about, in the whole output or the whole input. owner, block, slot:
    as in a Tile (a block of rows has slot 0, and so has all that a collective moves).
    """

    kind: Kind
    call: int
    rank: int
    peer: int
    row: int
    rows: int
    column: int
    columns: int
    owner: int
    block: int
    slot: int

    def __str__(self) -> str:
        to = f" to rank {self.peer}" if self.peer != self.rank else ""
        part = f"rows {self.row}..{self.row + self.rows - 1}"
        if self.kind not in (Kind.PUSH_ROWS, Kind.COPY_ROWS, Kind.KEEP_ROWS):
            part += f", columns {self.column}..{self.column + self.columns - 1}"
        return f"{self.kind.value} ({part}) of rank {self.rank}{to} in call {self.call}"


@dataclass(frozen=True)
class Stage:
    """The tasks of one kind in one call, of all ranks, and what they touch; the caller's inputs left out.

    Axes of a box: the rank whose memory it is, rows, columns. Of `partials.*` a row is a place of the
    workspace: one summand of one tile.
    """

    operator: str
    kind: Kind
    call: int
    tasks: tuple[Task, ...]
    reads: tuple[Access, ...]
    write: Access

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.kind.value} of call {self.call}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a call: rows of all ranks together, and the columns and the depth of one rank's product.

    Of a collective the rows and columns of the whole tensor, and no depth.
    """

    m: int
    n: int
    k: int
    world: int


@dataclass(frozen=True)
class Instance:
    """All tasks, stage by stage in program order."""

    shape: Shape
    stages: tuple[Stage, ...]

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks of all stages; a task's number is its place here."""
        return tuple(task for stage in self.stages for task in stage.tasks)

    @property
    def shards(self) -> Shards:
        """How rows are dealt."""
        return Shards(self.shape.m, self.shape.world)


@dataclass(frozen=True)
class ProductInstance(Instance):
    """Of a kernel with a product. weights: products side by side, 2 for silu_mul.

    copied: calls whose rows the copy engine gathers.
    """

    grid: TileGrid
    weights: int
    gather: bool
    reduce: Reduce
    copied: frozenset[int] = frozenset()

    def order(self, rank: int) -> TileOrder:
        """In which order a rank computes its tiles: `Block::order` of `pk/lcsc/block.hpp`."""
        return order_of(self.shape, self.grid, self.weights, rank, self.reduce)

    def gathered(self, call: int) -> int:
        """The buffer to which the peers' rows come."""
        return gathered_in(call, self.copied)


@dataclass(frozen=True)
class CollectiveInstance(Instance):
    """Of a collective by itself. The tensor of an all-reduce is seen as rows of one piece: those are dealt.

    one_shot: an all-reduce in which each rank adds up everything. in_network: one that the network adds up,
    in memory of the library.
    """

    collective: Collective
    one_shot: bool
    in_network: bool = False


def gathered_in(call: int, copied: Collection[int]) -> int:
    """The buffer of gathered rows that a call uses: of copies the first, as graphs fix addresses."""
    return 0 if call in copied else call % BUFFERS


def order_of(shape: Shape, grid: TileGrid, weights: int, rank: int, reduce: Reduce) -> TileOrder:
    """A rank begins with its own rows, or, when others own tiles, with those of the next rank."""
    first = rank if reduce is Reduce.NONE else (rank + 1) % shape.world
    return TileOrder(Shards(shape.m, shape.world), shape.n * weights, grid, first)
