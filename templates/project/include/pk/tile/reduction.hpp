// How two elements become one.
#pragma once

#include <type_traits>

#include "pk/platform/platform.hpp"
#if !PK_CUDA
#include <atomic>

#include "pk/tile/f16.hpp"
#endif

namespace pk::tile {

enum class Reduction : std::uint32_t { add, min, max };

#if !PK_CUDA

template <Reduction How>
float combined(float a, float b) {
    if constexpr (How == Reduction::add) return a + b;
    if constexpr (How == Reduction::min) return b < a ? b : a;
    if constexpr (How == Reduction::max) return a < b ? b : a;
}

// `there` becomes the combination, at once, whoever else does the same.
template <Reduction How>
void combine(float& there, float given) {
    std::atomic_ref<float> shared(there);
    float seen = shared.load(std::memory_order_relaxed);
    while (!shared.compare_exchange_weak(seen, combined<How>(seen, given), std::memory_order_relaxed)) {
    }
}

template <Reduction How, class Type>
void combine(Type& there, Type given) {
    std::atomic_ref<std::uint16_t> shared(there.bits);
    std::uint16_t seen = shared.load(std::memory_order_relaxed), wanted = 0;
    do {
        const float sum = combined<How>(to_float(Type{seen}), to_float(given));
        if constexpr (std::is_same_v<Type, bf16>) {
            wanted = to_bf16(sum).bits;
        } else {
            wanted = to_f16(sum).bits;
        }
    } while (!shared.compare_exchange_weak(seen, wanted, std::memory_order_relaxed));
}

#endif

}  // namespace pk::tile
