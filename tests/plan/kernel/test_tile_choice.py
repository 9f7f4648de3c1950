"""Which tile a call takes, against `pk/lcsc/tile_choice.hpp`."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

from kgen.paths import project_templates
from kgen.plan.kernel.runtime import Reduce
from kgen.plan.kernel.tile_choice import Product, choose_tile
from kgen.plan.kernel.tiles import TileGrid

SHOW = """
#include <cstdio>
#include "pk/lcsc/config.hpp"
#include "pk/lcsc/tile_choice.hpp"

using namespace pk::lcsc;

template <bool Gather, Reduce What, std::uint32_t CommSms>
struct Config {
  using Type = Bf16;
  using Partial = float;
  static constexpr std::uint32_t tile_m = 128, tile_n = 256, tile_k = 64, stages = 4, group = 8;
  static constexpr std::uint32_t comm_sms = CommSms;
  static constexpr bool gather = Gather, by_tma = false, silu_mul = false;
  static constexpr auto reduce = What;
};

template <bool Gather, Reduce What, std::uint32_t CommSms = 0>
TileChoice choose(unsigned m, unsigned n, unsigned k, unsigned world, unsigned blocks) {
  return choose_tile<Config<Gather, What, CommSms>>(m, n, k, world, blocks);
}

int main() {
  unsigned form, m, n, k, world, blocks;
  while (std::scanf("%u%u%u%u%u%u", &form, &m, &n, &k, &world, &blocks) == 6) {
    const auto c = form == 0   ? choose<false, Reduce::none>(m, n, k, world, blocks)
                   : form == 1 ? choose<true, Reduce::none>(m, n, k, world, blocks)
                   : form == 2 ? choose<false, Reduce::scatter>(m, n, k, world, blocks)
                   : form == 3 ? choose<false, Reduce::all>(m, n, k, world, blocks)
                               : choose<false, Reduce::all, 16>(m, n, k, world, blocks);
    std::printf("%d %u\\n", c.half, c.sharing);
  }
}
"""
FORMS = [
    (False, Reduce.NONE, False),
    (True, Reduce.NONE, False),
    (False, Reduce.SCATTER, False),
    (False, Reduce.ALL, False),
    (False, Reduce.ALL, True),
]


def test_the_header_chooses_alike(tmp_path: Path) -> None:
    chance = random.Random(1)
    cases = [
        (
            chance.randrange(len(FORMS)),
            chance.randrange(1, 3000),
            8 * chance.randrange(1, 2000),
            8 * chance.randrange(1, 2000),
            chance.choice([1, 2, 3, 8]),
            chance.choice([2, 16, 64, 116, 132]),
        )
        for _ in range(3000)
    ]
    (tmp_path / "show.cpp").write_text(SHOW)
    include = project_templates() / "include"
    command = ["g++", "-std=c++20", "-O1", "-Wno-psabi", f"-I{include}", "show.cpp", "-o", "show"]
    subprocess.run(command, cwd=tmp_path, check=True)
    given = "\n".join(" ".join(map(str, case)) for case in cases)
    lines = subprocess.check_output([tmp_path / "show"], text=True, input=given).splitlines()
    seen = set()
    for case, line in zip(cases, lines, strict=True):
        form, m, n, k, world, blocks = case
        gather, reduce, inter_sm = FORMS[form]
        product = Product(m, n, -(-k // 64), world, blocks // 2, gather, reduce, inter_sm)
        choice = choose_tile(product, TileGrid(128, 256, 2, 8))
        assert line == f"{int(choice.half)} {choice.sharing}", case
        seen.add((form, choice.half, choice.sharing > 0))
    # All that there is: agents share nothing.
    assert seen == {
        (f, h, s) for f in range(5) for h in (False, True) for s in (False, True) if f < 4 or not s
    }
