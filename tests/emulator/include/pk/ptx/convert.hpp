// Takes the place of the project's header.
#pragma once

#include "pk/tile/bf16.hpp"

namespace pk::ptx {

inline std::uint32_t to_bf16_pair(float low, float high) {
    return pk::tile::to_bf16(low).bits | std::uint32_t{pk::tile::to_bf16(high).bits} << 16;
}

}  // namespace pk::ptx
