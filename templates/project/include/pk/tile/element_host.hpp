// Pairs of 16-bit elements and floats, on the host: the interface of element.hpp.
#pragma once

#include "pk/tile/f16.hpp"

namespace pk::tile {

template <class Type>
struct Element;

template <>
struct Element<bf16> {
    static std::uint32_t pack(float low, float high) {
        return to_bf16(low).bits | std::uint32_t{to_bf16(high).bits} << 16;
    }
    static void unpack(std::uint32_t v, float& low, float& high) {
        low = to_float(bf16{static_cast<std::uint16_t>(v)});
        high = to_float(bf16{static_cast<std::uint16_t>(v >> 16)});
    }
};

template <>
struct Element<f16> {
    static std::uint32_t pack(float low, float high) {
        return to_f16(low).bits | std::uint32_t{to_f16(high).bits} << 16;
    }
    static void unpack(std::uint32_t v, float& low, float& high) {
        low = to_float(f16{static_cast<std::uint16_t>(v)});
        high = to_float(f16{static_cast<std::uint16_t>(v >> 16)});
    }
};

}  // namespace pk::tile
