// bfloat16 without a CUDA header: the upper half of a float.
#pragma once

#include <bit>

#include "pk/platform/platform.hpp"

namespace pk::tile {

struct bf16 {
    std::uint16_t bits;
};

// Rows of matrices start at multiples of this many elements, and the gap is zero.
inline constexpr std::uint32_t row_align = 32;

PK_HOST_DEVICE constexpr std::uint32_t padded(std::uint32_t cols) {
    return (cols + row_align - 1) / row_align * row_align;
}

PK_DEVICE std::uint32_t float_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return std::bit_cast<std::uint32_t>(value);
#endif
}

PK_DEVICE float bits_float(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    return std::bit_cast<float>(bits);
#endif
}

PK_DEVICE float to_float(bf16 value) {
    return bits_float(std::uint32_t{value.bits} << 16);
}

// Round to nearest, ties to even; a NaN stays one.
PK_DEVICE bf16 to_bf16(float value) {
    const std::uint32_t bits = float_bits(value);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (bits >> 16) | 0x40u;
    return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

}  // namespace pk::tile
