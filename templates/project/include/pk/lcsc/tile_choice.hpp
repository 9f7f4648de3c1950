// Which of two tiles a call takes.
#pragma once

#include "pk/lcsc/layout.hpp"

namespace pk::lcsc {

// C with tiles of half the width, for calls of few tiles.
template <class C>
struct Half : C {
    static constexpr std::uint32_t tile_n = C::tile_n / 2, stages = C::stages * 3 / 2;
};

// Tiles of half the width take more of the memory's and the link's time for their work, but they fill the SMs
// where there are few, and what peers wait for is sent earlier. All ranks must choose alike, so `blocks`, of
// threads that compute, is the same on all. Measured on two H200: tests/bench/NOTES.md.
template <class C>
bool takes_half(std::uint32_t m, std::uint32_t n, std::uint32_t world, std::uint32_t blocks) {
    using L = Layout<C>;
    const std::uint32_t columns = C::silu_mul ? n * 2 : n, clusters = blocks / members;
    const TileOrder order(deal_rows(m, world), world, columns, L::grid(), 0);
    const std::uint32_t waves_of_full = divide_up(order.count(), clusters);
    if (C::reduce == Reduce::all) return waves_of_full <= 2;
    if (C::gather || C::reduce == Reduce::scatter) return waves_of_full <= 1;
    return order.count() * 2 <= clusters;
}

}  // namespace pk::lcsc
