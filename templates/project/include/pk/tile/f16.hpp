// IEEE half precision without a CUDA header or compiler support, for the host.
#pragma once

#include "pk/tile/bf16.hpp"

namespace pk::tile {

struct f16 {
    std::uint16_t bits;
};

PK_DEVICE float to_float(f16 value) {
    const std::uint32_t sign = std::uint32_t{value.bits & 0x8000u} << 16;
    const std::uint32_t exponent = value.bits >> 10 & 31u, fraction = value.bits & 0x3ffu;
    if (exponent == 31) return bits_float(sign | 0x7f800000u | fraction << 13);
    if (exponent != 0) return bits_float(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * 0x1p-24f;  // subnormal: exact
    return sign != 0 ? -small : small;
}

// Round to nearest, ties to even; a NaN stays one, what is too large becomes infinite.
PK_DEVICE f16 to_f16(float value) {
    const std::uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
    if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // 65520 and more
    if (magnitude < 0x38800000u) {
        // Subnormal: adding 0.5 leaves units of 2^-24 in the last place, and rounds.
        const float shifted = bits_float(magnitude) + 0.5f;
        return {static_cast<std::uint16_t>(sign | (float_bits(shifted) - 0x3f000000u))};
    }
    const std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return {static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
}

}  // namespace pk::tile
