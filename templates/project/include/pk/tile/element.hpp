// Pairs of 16-bit elements and floats.
#pragma once

#include "pk/platform/platform.hpp"
#include "pk/ptx/element_types.hpp"

namespace pk::tile {

template <class Type>
struct Element;

template <>
struct Element<ptx::OfBf16> {
    PK_DEVICE static std::uint32_t pack(float low, float high) {
        std::uint32_t v;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
        return v;
    }
    PK_DEVICE static void unpack(std::uint32_t v, float& low, float& high) {
        low = __uint_as_float(v << 16);
        high = __uint_as_float(v & 0xffff0000u);
    }
};

template <>
struct Element<ptx::OfF16> {
    PK_DEVICE static std::uint32_t pack(float low, float high) {
        std::uint32_t v;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
        return v;
    }
    PK_DEVICE static void unpack(std::uint32_t v, float& low, float& high) {
        asm("{\n.reg .f16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
            : "=f"(low), "=f"(high)
            : "r"(v));
    }
};

}  // namespace pk::tile
