// Loads of shared memory in the shapes that tensor core instructions want.
#pragma once

#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

// Four 8 x 8 matrices of 16-bit elements. Lane l gives the address of row l % 8 of matrix l / 8 (16 bytes);
// lane 4 g + i gets the elements (g, 2 i) and (g, 2 i + 1) of matrix n in v[n].
__device__ __forceinline__ void load_matrices(std::uint32_t (&v)[4], std::uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(row)
                 : "memory");
}

// The same of the transposed matrices.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&v)[4], std::uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(row)
                 : "memory");
}

}  // namespace pk::ptx
