// The variables and functions that CUDA gives device code.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "emulator/thread.hpp"

#define threadIdx (::emulator::running->index)
#define blockIdx (::emulator::block_index())
// Of the launch that runs.
extern dim3 blockDim, gridDim;

inline float __fmaf_rn(float a, float b, float c) {
    return std::fma(a, b, c);
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline float __expf(float x) {
    return std::exp(x);
}
inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}
inline std::uint32_t __float_as_uint(float x) {
    return std::bit_cast<std::uint32_t>(x);
}
inline float __uint_as_float(std::uint32_t x) {
    return std::bit_cast<float>(x);
}
inline int __popc(std::uint32_t x) {
    return std::popcount(x);
}
inline int __ffs(std::uint32_t x) {
    return x == 0 ? 0 : std::countr_zero(x) + 1;
}
inline int __clz(std::uint32_t x) {
    return std::countl_zero(x);
}
template <class T>
T __ldg(const T* p) {
    return *p;
}

// As CUDA's: of two integer types the common one.
template <class A, class B>
    requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
    requires std::is_arithmetic_v<A> && std::is_arithmetic_v<B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    return T(a) < T(b) ? T(b) : T(a);
}

namespace emulator::detail {

// What a lane brings to a shuffle, and takes from it.
template <class T>
struct Shuffle {
    T value, result;
    std::uint32_t source;
};

template <class T>
T shuffle(std::uint32_t mask, T value, std::uint32_t source) {
    Shuffle<T> mine = {value, value, source % lanes};
    together(
        mask,
        [](void* const* operands, std::uint32_t came) {
            for (std::uint32_t lane = 0; lane < lanes; ++lane) {
                if ((came >> lane & 1) == 0) continue;
                auto& one = *static_cast<Shuffle<T>*>(operands[lane]);
                if ((came >> one.source & 1) == 0)
                    fail("a shuffle reads lane %u, which takes no part", one.source);
                one.result = static_cast<const Shuffle<T>*>(operands[one.source])->value;
            }
        },
        &mine);
    return mine.result;
}

inline std::uint32_t ballot(std::uint32_t mask, bool vote) {
    std::uint32_t mine = vote ? 1 : 0;
    together(
        mask,
        [](void* const* operands, std::uint32_t came) {
            std::uint32_t votes = 0;
            for (std::uint32_t lane = 0; lane < lanes; ++lane) {
                if ((came >> lane & 1) != 0) votes |= *static_cast<std::uint32_t*>(operands[lane]) << lane;
            }
            for (std::uint32_t lane = 0; lane < lanes; ++lane) {
                if ((came >> lane & 1) != 0) *static_cast<std::uint32_t*>(operands[lane]) = votes;
            }
        },
        &mine);
    return mine;
}

}  // namespace emulator::detail

template <class T>
T __shfl_sync(std::uint32_t mask, T value, std::uint32_t source) {
    return emulator::detail::shuffle(mask, value, source);
}
template <class T>
T __shfl_xor_sync(std::uint32_t mask, T value, std::uint32_t step) {
    return emulator::detail::shuffle(mask, value, emulator::running->lane ^ step);
}
template <class T>
T __shfl_up_sync(std::uint32_t mask, T value, std::uint32_t step) {
    const std::uint32_t lane = emulator::running->lane;
    return emulator::detail::shuffle(mask, value, lane < step ? lane : lane - step);
}
template <class T>
T __shfl_down_sync(std::uint32_t mask, T value, std::uint32_t step) {
    const std::uint32_t lane = emulator::running->lane;
    return emulator::detail::shuffle(mask, value, lane + step < emulator::lanes ? lane + step : lane);
}
inline std::uint32_t __ballot_sync(std::uint32_t mask, bool vote) {
    return emulator::detail::ballot(mask, vote);
}
inline bool __any_sync(std::uint32_t mask, bool vote) {
    return emulator::detail::ballot(mask, vote) != 0;
}
inline bool __all_sync(std::uint32_t mask, bool vote) {
    return emulator::detail::ballot(mask, !vote) == 0;
}
inline void __syncwarp(std::uint32_t mask = ~0u) {
    emulator::together(mask, [](void* const*, std::uint32_t) {}, nullptr);
}
inline void __syncthreads() {
    emulator::block_barrier(0, 0, false);
}
inline void __threadfence() {}
