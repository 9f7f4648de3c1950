// Takes the place of the project's header.
#pragma once

#include "emulator/matrix.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
    emulator::mma_m16n8k16(c, a, b);
}

inline std::uint32_t transpose_matrix(std::uint32_t pair) {
    return emulator::transpose_matrix(pair);
}

}  // namespace pk::ptx
