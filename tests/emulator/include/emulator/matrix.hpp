// The matrix instructions of a warp, with their operands laid out over lanes as PTX has them.
#pragma once

#include <cstdint>

namespace emulator {

// c += a b in fp32; a is 16 x 16, b 16 x 8, both bf16.
void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]);

// ldmatrix .x4: lane l gives the address of row l % 8 of matrix l / 8.
void load_matrices(std::uint32_t (&v)[4], std::uint32_t row, bool transposed);

// movmatrix: lane 4 g + i has elements (g, 2 i) and (g, 2 i + 1) of an 8 x 8 matrix, and gets its own of the
// transposed one.
std::uint32_t transpose_matrix(std::uint32_t pair);

}  // namespace emulator
