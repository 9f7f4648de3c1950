// The threads that run one task: a block of 8 warps on a GPU, one thread (a block and a warp of one) on the
// host.
#pragma once

#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/ptx/named_barrier.hpp"
#endif

namespace pk {

inline constexpr std::uint32_t warp_lanes = PK_CUDA ? 32 : 1;
inline constexpr std::uint32_t block_warps = PK_CUDA ? 8 : 1;
inline constexpr std::uint32_t block_threads = warp_lanes * block_warps;

#if PK_CUDA

PK_DEVICE std::uint32_t thread_rank() {
    return threadIdx.x;
}
// Barrier 1, as a block may have more warps than those that run tasks.
PK_DEVICE void sync_block() {
    ptx::named_barrier_sync<1, block_threads>();
}
PK_DEVICE void sync_warp() {
    __syncwarp();
}
PK_DEVICE std::uint32_t ballot(bool vote) {
    return __ballot_sync(~0u, vote);
}
PK_DEVICE std::uint32_t count_bits(std::uint32_t bits) {
    return static_cast<std::uint32_t>(__popc(bits));
}
PK_DEVICE std::uint32_t first_bit(std::uint32_t bits) {
    return static_cast<std::uint32_t>(__ffs(bits) - 1);
}

// The value of lane `source`; every lane of the warp calls.
template <class T>
PK_DEVICE T broadcast(T value, std::uint32_t source) {
    return __shfl_sync(~0u, value, source);
}

template <class T>
PK_DEVICE T warp_sum(T value) {
    for (std::uint32_t step = 16; step != 0; step /= 2) value += __shfl_xor_sync(~0u, value, step);
    return value;
}

// The sum over the lanes before this one.
template <class T>
PK_DEVICE T warp_sum_before(T value) {
    T total = value;
    for (std::uint32_t step = 1; step < 32; step *= 2) {
        const T lower = __shfl_up_sync(~0u, total, step);
        if (threadIdx.x % 32 >= step) total += lower;
    }
    return total - value;
}

template <class T>
PK_DEVICE T warp_max(T value) {
    for (std::uint32_t step = 16; step != 0; step /= 2) {
        const T other = __shfl_xor_sync(~0u, value, step);
        value = value < other ? other : value;
    }
    return value;
}

#else

PK_DEVICE std::uint32_t thread_rank() {
    return 0;
}
PK_DEVICE void sync_block() {}
PK_DEVICE void sync_warp() {}
PK_DEVICE std::uint32_t ballot(bool vote) {
    return vote ? 1 : 0;
}
PK_DEVICE std::uint32_t count_bits(std::uint32_t bits) {
    return bits;
}
PK_DEVICE std::uint32_t first_bit(std::uint32_t) {
    return 0;
}

template <class T>
PK_DEVICE T broadcast(T value, std::uint32_t) {
    return value;
}

template <class T>
PK_DEVICE T warp_sum(T value) {
    return value;
}

template <class T>
PK_DEVICE T warp_max(T value) {
    return value;
}

#endif

PK_DEVICE std::uint32_t lane() {
    return thread_rank() % warp_lanes;
}
PK_DEVICE std::uint32_t warp() {
    return thread_rank() / warp_lanes;
}

}  // namespace pk
