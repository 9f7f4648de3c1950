// Reductions over the threads of a block, in an order that does not change.
#pragma once

#include "pk/platform/block.hpp"
#include "pk/tile/bf16.hpp"
#if !PK_CUDA
#include "pk/tile/vector.hpp"
#endif

namespace pk::tile {

// Room for one value of each warp.
template <class T>
struct WarpValues {
    T value[block_warps];
};

// combine(a, b) over the values of all threads: within each warp by `warp_combine`, then warp after warp.
// All threads call and get the result; `room` may be used again at once.
template <class T, class WarpCombine, class Combine>
PK_DEVICE T block_reduce(T value, WarpValues<T>& room, WarpCombine warp_combine, Combine combine) {
    if constexpr (block_threads == 1) return value;
    value = warp_combine(value);
    if (lane() == 0) room.value[warp()] = value;
    sync_block();
    T result = room.value[0];
    for (std::uint32_t w = 1; w < block_warps; ++w) result = combine(result, room.value[w]);
    sync_block();
    return result;
}

template <class T>
PK_DEVICE T block_sum(T value, WarpValues<T>& room) {
    return block_reduce(value, room, [](T v) { return warp_sum(v); }, [](T a, T b) { return a + b; });
}

template <class T>
PK_DEVICE T block_max(T value, WarpValues<T>& room) {
    return block_reduce(value, room, [](T v) { return warp_max(v); }, [](T a, T b) { return a < b ? b : a; });
}

// Sum of x[i]^2 over a padded row.
PK_DEVICE float sum_of_squares(const float* x, std::uint32_t padded_cols, WarpValues<float>& room) {
#if PK_CUDA
    float total = 0;
    for (std::uint32_t i = thread_rank(); i < padded_cols; i += block_threads) total += x[i] * x[i];
    return block_sum(total, room);
#else
    static_cast<void>(room);
    Floats<lanes> even = {}, odd = {};
    for (std::uint32_t i = 0; i < padded_cols; i += 2 * lanes) {
        const auto a = load<Floats<lanes>>(x + i), b = load<Floats<lanes>>(x + i + lanes);
        even += a * a;
        odd += b * b;
    }
    return sum<lanes>(even + odd);
#endif
}

}  // namespace pk::tile
