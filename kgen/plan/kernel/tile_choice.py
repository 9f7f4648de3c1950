"""Which tile a call takes, and how many clusters share tiles: `pk/lcsc/tile_choice.hpp` in Python.

A test compares the two over many shapes. Names and numbers are those of the header.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kgen.plan.kernel.runtime import Reduce
from kgen.plan.kernel.tiles import Shards, TileGrid, TileOrder, divide_up

_GAINS = 0.97  # of the time, else it is not worth it


class TileCost(NamedTuple):
    """How long tiles take, in ns.

    step: of one tile; step_of_all: where all SMs have one. part, helper, uneven: what takes the sums of a
    part, of each more, and shares that cut tiles unevenly.
    """

    step: float
    step_of_all: float
    part: float
    helper: float
    uneven: float

    def step_of(self, clusters: int, of_all: int) -> float:
        """A step of a tile while so many clusters have one."""
        full = clusters / of_all
        return self.step + (max(full - 0.5, 0) * 2 * (self.step_of_all - self.step))

    def ns(self, places: int, steps: int, clusters: int, sharing: int) -> float:
        """The products of tiles in so many places, of so many steps each."""
        rounds, rest = divmod(places, clusters)
        whole = rounds * steps * self.step_of(clusters, clusters)
        if sharing == 0:
            return whole + (steps * self.step_of(rest, clusters) if rest else 0)
        handed = self.part + (divide_up(sharing, rest) - 2) * self.helper
        handed += self.uneven if sharing % rest else 0
        return whole + rest * steps / sharing * self.step_of(sharing, clusters) + handed


FULL_COST = TileCost(590, 750, 7500, 1000, 4000)
HALF_COST = TileCost(305, 420, 5000, 700, 3000)


class Product(NamedTuple):
    """What the choice goes by. n: columns of all weights. clusters: that compute."""

    m: int
    n: int
    steps: int
    world: int
    clusters: int
    gather: bool
    reduce: Reduce
    inter_sm: bool


class TileChoice(NamedTuple):
    """half: tiles of half the width. sharing: clusters that share tiles, or 0. ns: what the product takes."""

    half: bool
    sharing: int
    ns: float


def choose_tile(product: Product, grid: TileGrid) -> TileChoice:
    """What a call does. grid: of whole tiles."""

    def places(half: bool) -> int:
        width = grid.tile_columns // (2 if half else 1)
        shards = Shards(product.m, product.world)
        return TileOrder(shards, product.n, grid._replace(tile_columns=width), 0).count()

    def choice(half: bool, sharing: int) -> TileChoice:
        ns = _cost(half).ns(places(half), product.steps, product.clusters, sharing)
        return TileChoice(half, sharing, ns)

    over_ranks = product.gather or product.reduce is not Reduce.NONE
    most = 2 if product.reduce is Reduce.ALL else 1
    sends_halves = over_ranks and divide_up(places(half=False), product.clusters) <= most
    best = choice(sends_halves, 0)
    least = best.ns * _GAINS
    for half in (False, True):
        sharing = _best_sharing(_cost(half), places(half), product.steps, product.clusters)
        other = choice(half, 0 if product.inter_sm else sharing)
        if (other.sharing or not over_ranks) and other.ns < least:
            best, least = other, other.ns
    return best


def _cost(half: bool) -> TileCost:
    return HALF_COST if half else FULL_COST


def _best_sharing(cost: TileCost, places: int, steps: int, clusters: int) -> int:
    """The best number of clusters to share what rounds leave; 0 if that gains too little."""
    rest = places % clusters
    best, least = 0, cost.ns(places, steps, clusters, 0) * _GAINS

    def candidates() -> Iterator[int]:
        yield from range(rest * 2, clusters + 1, rest)
        yield clusters

    for sharing in candidates() if rest else ():
        ns = cost.ns(places, steps, clusters, sharing)
        if ns < least:
            best, least = sharing, ns
    return best
