// Takes the place of the project's header.
#pragma once

#include "emulator/matrix.hpp"
#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

inline void load_matrices(std::uint32_t (&v)[4], std::uint32_t row) {
    emulator::load_matrices(v, row, false);
}
inline void load_matrices_transposed(std::uint32_t (&v)[4], std::uint32_t row) {
    emulator::load_matrices(v, row, true);
}

}  // namespace pk::ptx
