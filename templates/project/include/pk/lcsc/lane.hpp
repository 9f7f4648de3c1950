// Where a consumer thread is.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::lcsc {

// A thread's place in its warpgroup's half of a tile. Sums as wgmma leaves them: c[4 n + 2 h + e] is row
// 16 warp + 8 h + g, column 8 n + 2 i + e.
struct Lane {
    std::uint32_t thread, group, warp, g, i;

    PK_DEVICE explicit Lane(std::uint32_t t)
        : thread(t), group(t / 128), warp(t / 32 % 4), g(t % 32 / 4), i(t % 4) {}
    PK_DEVICE std::uint32_t row(std::uint32_t h) const { return group * 64 + warp * 16 + h * 8 + g; }
};

}  // namespace pk::lcsc
