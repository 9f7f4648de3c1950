// Copies of boxes of a matrix (2-D TMA) from global to shared memory, which one thread issues.
#pragma once

#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

// A matrix as the copy engine knows it: CUtensorMap, which the host encodes. It lies in kernel parameters
// (__grid_constant__) or constant memory.
struct alignas(64) TensorMap {
    std::uint64_t words[16];
};

#if PK_SM90

// Brings the map close; a hint.
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(&map) : "memory");
}

// Starts the copy of the box whose first element is (row, column); what of it lies outside the matrix
// arrives as zeros, and counts. The rules are those of bulk_load; `to` is a multiple of the map's swizzle
// pattern.
__device__ __forceinline__ void tensor_load(std::uint32_t to, const TensorMap& map, std::uint32_t row,
                                            std::uint32_t column, std::uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
        "%3}], [%4];"
        :
        : "r"(to), "l"(&map), "r"(column), "r"(row), "r"(barrier)
        : "memory");
}

// The same to the same place in the memory of every block of the cluster whose bit is set, where the barrier
// at the same place counts the bytes.
__device__ __forceinline__ void tensor_load_to_all(std::uint32_t to, const TensorMap& map, std::uint32_t row,
                                                   std::uint32_t column, std::uint32_t barrier,
                                                   std::uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;"
        :
        : "r"(to), "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
        : "memory");
}

#endif

}  // namespace pk::ptx
