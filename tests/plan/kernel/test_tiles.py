"""The order of tiles against `pk/lcsc/tiles.hpp`."""

import subprocess
from itertools import product
from pathlib import Path

import pytest

from kgen.paths import project_templates
from kgen.plan.kernel.tiles import Shards, TileGrid, TileOrder

GRIDS = [TileGrid(128, 256, 2, 8), TileGrid(16, 8, 1, 3), TileGrid(4, 8, 2, 1)]
CASES = [
    (rows, world, columns, grid, world // 2)
    for rows, world, columns, grid in product([1, 3, 130, 2999], [1, 2, 5, 8], [8, 24, 4096], GRIDS)
    if rows * columns / (grid.tile_rows * grid.tile_columns) < 3000
]
SHOW = """
#include <cstdio>
#include "pk/lcsc/tiles.hpp"

int main() {
  unsigned rows, world, columns, height, width, members, group, first;
  while (std::scanf("%u%u%u", &rows, &world, &columns) == 3 &&
         std::scanf("%u%u%u%u%u", &height, &width, &members, &group, &first) == 5) {
    const auto shards = pk::lcsc::deal_rows(rows, world);
    for (unsigned r = 0; r < world; ++r) std::printf("%u+%u ", shards.begin(r), shards.count(r));
    const pk::lcsc::TileOrder order(shards, world, columns, {height, width, members, group}, first);
    for (unsigned p = 0; p < order.count(); ++p) {
      for (unsigned m = 0; m < members; ++m) {
        const auto t = order.at(p, m);
        std::printf("%u,%u,%u,%u,%u,%u ", t.row, t.column, t.rows, t.owner, t.block, t.slot);
      }
    }
    std::puts("");
  }
}
"""


def shown(rows: int, world: int, columns: int, grid: TileGrid, first: int) -> str:
    shards = Shards(rows, world)
    order = TileOrder(shards, columns, grid, first)
    dealt = [f"{shards.begin(rank)}+{shards.count(rank)}" for rank in range(world)]
    places = product(range(order.count()), range(grid.members))
    return " ".join([*dealt, *(",".join(map(str, order.at(*place))) for place in places)])


def test_the_header_has_the_same_order(tmp_path: Path) -> None:
    (tmp_path / "show.cpp").write_text(SHOW)
    include = project_templates() / "include"
    command = ["g++", "-std=c++20", "-O1", "-Wno-psabi", f"-I{include}", "show.cpp", "-o", "show"]
    subprocess.run(command, cwd=tmp_path, check=True)
    given = [f"{r} {w} {c} {' '.join(map(str, grid))} {f}" for r, w, c, grid, f in CASES]
    lines = subprocess.check_output([tmp_path / "show"], text=True, input="\n".join(given)).splitlines()
    for case, line in zip(CASES, lines, strict=True):
        assert line.rstrip() == shown(*case), case


@pytest.mark.parametrize("sms", [2, 6, 132])
def test_every_tile_is_that_of_one_sm(sms: int) -> None:
    order = TileOrder(Shards(2999, 3), 4032, TileGrid(128, 256, 2, 8), 1)
    found = sorted(tile for sm in range(sms) for tile in order.of_sm(sm, sms) if tile.rows)
    assert len(set(found)) == len(found) == 3 * 8 * 16
    assert sum(tile.rows for tile in found) == 2999 * 16
    assert {(tile.owner, tile.slot) for tile in found} == {(r, s) for r in range(3) for s in range(8 * 16)}
