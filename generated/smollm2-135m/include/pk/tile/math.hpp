// Multiply-add, exp and SiLU. exp is the accurate library function on a GPU and a polynomial that vectorises
// on the host.
#pragma once

#include <cmath>

#include "pk/tile/bf16.hpp"
#if !PK_CUDA
#include "pk/tile/vector.hpp"
#endif

namespace pk::tile {

#if PK_CUDA

PK_DEVICE float exp(float x) {
    return ::expf(x);
}

// a * b + c, rounded once wherever it is inlined, so that the same steps give the same bits in every place.
PK_DEVICE float multiply_add(float a, float b, float c) {
    return ::fmaf(a, b, c);
}

#else

// a * b + c; whether it is rounded once depends on the CPU.
inline float multiply_add(float a, float b, float c) {
    return a * b + c;
}

// exp to 2 ulp: 2^n e^r with |r| <= ln(2) / 2. Below -87 it is 0, above 88 infinite; NaN gives 0.
template <std::uint32_t N>
Floats<N> exp(Floats<N> x) {
    using F = Floats<N>;
    using I = typename VectorOf<std::int32_t, N>::type;
    const F zero = {};
    const F lowest = zero - 87.0f, highest = zero + 88.0f;
    const auto below = ~(x >= lowest), above = x > highest;
    const F clamped = below ? lowest : (above ? highest : x);
    // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits.
    const F shifter = zero + 12582912.0f;
    const F shifted = clamped * 1.44269504f + shifter;
    const F n = shifted - shifter;
    const F r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    F p = zero + 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const I scale = (reinterpret_cast<I>(shifted) - 0x4b400000 + 127) << 23;
    const F value = p * reinterpret_cast<F>(scale);
    return below ? zero : (above ? zero + INFINITY : value);
}

inline float exp(float x) {
    const Floats<4> v = {x, x, x, x};
    return exp<4>(v)[0];
}

#endif

// x * sigmoid(x)
PK_DEVICE float silu(float x) {
    return x / (1.0f + exp(-x));
}

}  // namespace pk::tile
