// Conversions of several numbers in one instruction.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// Two floats as bf16, rounded to nearest, ties to even; `low` in the lower half.
__device__ __forceinline__ std::uint32_t to_bf16_pair(float low, float high) {
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

}  // namespace pk::ptx
