// Whether the pushers of a call keep a pace.
#pragma once

#include "pk/lcsc/config.hpp"

namespace pk::lcsc {

// Stores that find the link full stand in the way of their SM's loads. So summands, and rows of a product
// that takes at least three times as long as the link needs for them, are sent evenly; where sending takes
// longer, it must not wait. The product of all n columns, 2 n flops an element of a row, at 780 TFLOP/s; the
// row to (world - 1) peers of `world` at 370 GB/s. Measured on two H200: tests/bench/NOTES.md.
template <class C>
bool keeps_pace(std::uint32_t n, std::uint32_t world) {
    if constexpr (!C::gather) return true;
    static constexpr std::uint64_t columns = 6000;
    return weight_columns<C>(n) * std::uint64_t{world} >= columns * (world - 1);
}

}  // namespace pk::lcsc
