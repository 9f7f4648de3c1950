// The names by which a configuration (layout.hpp) chooses elements, on the GPU and on the host.
#pragma once

#include "pk/lcsc/layout.hpp"
#if PK_CUDA
#include "pk/ptx/wgmma_tile.hpp"
#else
#include "pk/tile/f16.hpp"
#endif

namespace pk::lcsc {

#if PK_CUDA
using Bf16 = ptx::OfBf16;
using F16 = ptx::OfF16;
#else
using Bf16 = tile::bf16;
using F16 = tile::f16;
#endif

// Columns of all weights side by side: a tile's columns are of them.
template <class C>
constexpr std::uint32_t weight_columns(std::uint32_t n) {
    return C::silu_mul ? n * 2 : n;
}

}  // namespace pk::lcsc
