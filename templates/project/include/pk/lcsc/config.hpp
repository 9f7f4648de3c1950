// What a configuration (layout.hpp) says, and what follows from it.
#pragma once

#include "pk/lcsc/element_types.hpp"
#include "pk/lcsc/layout.hpp"

namespace pk::lcsc {

// Columns of all weights side by side: a tile's columns are of them.
template <class C>
constexpr std::uint32_t weight_columns(std::uint32_t n) {
    return C::silu_mul ? n * 2 : n;
}

}  // namespace pk::lcsc
