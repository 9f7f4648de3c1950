// Tensor core product of a 16 x 16 by a 16 x 8 tile of bf16, added to fp32.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::ptx {

// Lane 4 g + i holds a[0]: (row g, k 2i..2i+1), a[1]: row g + 8, a[2] and a[3]: the same at k + 8;
// b[0]: (k 2i..2i+1, column g), b[1]: k + 8; c[0..1]: (row g, columns 2i, 2i + 1), c[2..3]: row g + 8.
__device__ __forceinline__ void mma_m16n8k16(float (&c)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// An 8 x 8 matrix of 16-bit elements, of which lane 4 g + i has (g, 2 i) and (g, 2 i + 1), transposed.
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t pair) {
    std::uint32_t transposed;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(transposed) : "r"(pair));
    return transposed;
}

}  // namespace pk::ptx
