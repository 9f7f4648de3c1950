// Elements on the host.
#pragma once

#include <cstdint>
#include <type_traits>

#include "pk/lcsc/element_types.hpp"

namespace pk::lcsc {

// As elements lie in memory, and back; rounds to nearest, ties to even.
template <class Type>
float element(std::uint16_t bits) {
    return tile::to_float(Type{bits});
}
template <class Type>
std::uint16_t rounded(float value) {
    if constexpr (std::is_same_v<Type, tile::f16>) {
        return tile::to_f16(value).bits;
    } else {
        return tile::to_bf16(value).bits;
    }
}

}  // namespace pk::lcsc
