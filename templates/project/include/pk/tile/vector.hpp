// Host only: vectors of floats as the compiler's vector types, so that a loop over them uses whatever the CPU
// has (AVX-512, AVX2, NEON) without fast-math and with an order of additions that the source fixes.
#pragma once

#include <cstring>
#include <type_traits>
#include <utility>

#include "pk/tile/bf16.hpp"

namespace pk::tile {

#if defined(__AVX512F__)
inline constexpr std::uint32_t lanes = 16;
#elif defined(__AVX__)
inline constexpr std::uint32_t lanes = 8;
#else
inline constexpr std::uint32_t lanes = 4;
#endif

// body(integral_constant 0), .. body(integral_constant N - 1). With a loop and an index, an array of
// accumulators would stay in memory; with constants it goes to registers.
template <std::uint32_t N, class Body>
[[gnu::always_inline]] inline void unroll(Body body) {
    [&]<std::uint32_t... I>(std::integer_sequence<std::uint32_t, I...>) {
        (body(std::integral_constant<std::uint32_t, I>{}), ...);
    }(std::make_integer_sequence<std::uint32_t, N>{});
}

template <class T, std::uint32_t N>
struct VectorOf {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};

template <std::uint32_t N>
using Floats = typename VectorOf<float, N>::type;
template <std::uint32_t N>
using Words = typename VectorOf<std::uint32_t, N>::type;
template <std::uint32_t N>
using Doubles = typename VectorOf<double, N>::type;

template <class Vector>
Vector load(const void* p) {
    Vector v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

template <class Vector>
void store_vector(void* p, Vector v) {
    std::memcpy(p, &v, sizeof v);
}

// N bf16 values as floats.
template <std::uint32_t N>
Floats<N> load_bf16(const bf16* p) {
    const auto halves = load<typename VectorOf<std::uint16_t, N>::type>(p);
    const Words<N> words = __builtin_convertvector(halves, Words<N>) << 16;
    return reinterpret_cast<Floats<N>>(words);
}

// 2 N bf16 values, the even ones and the odd ones: one operation each.
template <std::uint32_t N>
struct Pairs {
    Floats<N> even, odd;
};

template <std::uint32_t N>
Pairs<N> load_pairs(const bf16* p) {
    const auto words = load<Words<N>>(p);
    return {reinterpret_cast<Floats<N>>(words << 16), reinterpret_cast<Floats<N>>(words & 0xffff0000u)};
}

// Adds up halves: lane i + lane (i + N / 2), down to one. Shuffles, not copies through memory, so that the
// vector may be an accumulator in a register.
template <std::uint32_t N>
[[gnu::always_inline]] inline float sum(Floats<N> v) {
    if constexpr (N == 1) {
        return v[0];
    } else {
        return [&]<int... I>(std::integer_sequence<int, I...>) {
            constexpr int half = N / 2;
            return sum<N / 2>(__builtin_shufflevector(v, v, I...) +
                              __builtin_shufflevector(v, v, (I + half)...));
        }(std::make_integer_sequence<int, N / 2>{});
    }
}

}  // namespace pk::tile
