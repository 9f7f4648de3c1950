"""How the output of a product is cut into tiles, and in which order: `pk/lcsc/tiles.hpp` in Python.

A test compares the two over many shapes. Names and numbers are those of the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kgen.ir.kernel.dims import block


def divide_up(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)


@dataclass(frozen=True, slots=True)
class Shards:
    """Rows dealt to ranks, as `block` deals them."""

    rows: int
    world: int

    def begin(self, rank: int) -> int:
        """The first row of a rank."""
        return block(self.rows, self.world, rank)[0]

    def count(self, rank: int) -> int:
        """How many rows a rank has, maybe none."""
        begin, end = block(self.rows, self.world, rank)
        return end - begin


class TileGrid(NamedTuple):
    """What the order depends on.

    members: tiles, one below the other, that a cluster of blocks computes at the same time. group: rows of
    such tiles that are walked column by column.
    """

    tile_rows: int
    tile_columns: int
    members: int
    group: int


class Tile(NamedTuple):
    """A tile that begins at (row, column) of the whole output.

    rows: fewer than a tile's, or none, at the end of a shard. owner: the rank whose rows these are, and
    `block` which block of them. slot: its number among the tiles of its owner, whatever the order.
    """

    row: int
    column: int
    rows: int
    owner: int
    block: int
    slot: int


@dataclass(frozen=True, slots=True)
class TileOrder:
    """Shard by shard from that of `first_owner` on, round the ranks; in a shard group by group."""

    shards: Shards
    columns: int
    grid: TileGrid
    first_owner: int

    @property
    def across(self) -> int:
        """Tiles side by side."""
        return divide_up(self.columns, self.grid.tile_columns)

    def blocks(self, rank: int) -> int:
        """Blocks of rows of a shard."""
        return divide_up(self.shards.count(rank), self.grid.tile_rows)

    def count(self) -> int:
        """Places of the order: each holds a tile for every member."""
        return sum(self._places(rank) for rank in range(self.shards.world))

    def at(self, place: int, member: int) -> Tile:
        """The tile of a member in a place below count()."""
        owner = self.first_owner
        while place >= (own := self._places(owner)):
            place -= own
            owner = (owner + 1) % self.shards.world
        of_group = self.grid.group * self.across
        first, inside = place // of_group * self.grid.group, place % of_group
        high = min(self._down(owner) - first, self.grid.group)
        block_ = (first + inside % high) * self.grid.members + member
        column = inside // high
        at, all_ = block_ * self.grid.tile_rows, self.shards.count(owner)
        rest = max(all_ - at, 0)
        return Tile(
            self.shards.begin(owner) + at,
            column * self.grid.tile_columns,
            min(rest, self.grid.tile_rows),
            owner,
            block_,
            block_ * self.across + column,
        )

    def of_sm(self, sm: int, sms: int) -> Iterator[Tile]:
        """The tiles of an SM, in order; some have no rows."""
        members = self.grid.members
        for place in range(sm // members, self.count(), sms // members):
            yield self.at(place, sm % members)

    def _down(self, rank: int) -> int:
        return divide_up(self.blocks(rank), self.grid.members)

    def _places(self, rank: int) -> int:
        return self._down(rank) * self.across
