// Rotary embedding: frequencies at compile time, and a head vector normed and rotated by one warp.
#pragma once

#include <cmath>

#include "pk/platform/block.hpp"
#include "pk/tile/math.hpp"

namespace pk::tile {

namespace detail {

// exp and log good to double precision for arguments of everyday size; <cmath> has no constexpr ones.
constexpr double const_exp(double x) {
    int halvings = 0;
    for (; x > 0.5 || x < -0.5; ++halvings) x /= 2;
    double term = 1, total = 1;
    for (int i = 1; i < 20; ++i) {
        term *= x / i;
        total += term;
    }
    for (; halvings > 0; --halvings) total *= total;
    return total;
}

constexpr double const_log(double x) {
    double log = 0;
    for (int i = 0; i < 60; ++i) {  // Newton's method on exp(log) = x, far from the root one unit a time
        const double e = const_exp(log);
        const double step = 2 * (x - e) / (x + e);
        log += step;
        if (step < 1e-17 && step > -1e-17) break;
    }
    return log;
}

}  // namespace detail

template <std::uint32_t Half>
struct RopeFrequencies {
    float value[Half];
};

// theta^(-2 i / head), and with a factor above 1 Llama 3's scaling: low frequencies divided by the factor,
// high ones kept, a linear blend between.
template <class V>
constexpr RopeFrequencies<V::head / 2> rope_frequencies() {
    constexpr double two_pi = 6.283185307179586476925;
    RopeFrequencies<V::head / 2> result{};
    for (std::uint32_t i = 0; i < V::head / 2; ++i) {
        double frequency = detail::const_exp(-2.0 * i / V::head * detail::const_log(V::rope_theta));
        if (V::rope_factor != 1) {
            const double wavelength = two_pi / frequency;
            const double turns = V::rope_original_context / wavelength;
            if (turns < V::rope_low_freq) {
                frequency /= V::rope_factor;
            } else if (turns <= V::rope_high_freq) {
                const double blend = (turns - V::rope_low_freq) / (V::rope_high_freq - V::rope_low_freq);
                frequency = (1 - blend) * frequency / V::rope_factor + blend * frequency;
            }
        }
        result.value[i] = static_cast<float>(frequency);
    }
    return result;
}

template <class V>
PK_TABLE RopeFrequencies<V::head / 2> rope_table = rope_frequencies<V>();

// The pairs (i, i + head / 2) of a head that a lane works on: i = lane, lane + warp_lanes, ..
template <class V>
struct HeadLanes {
    static constexpr std::uint32_t half = V::head / 2;
    static constexpr std::uint32_t pairs = (half + warp_lanes - 1) / warp_lanes;
};

// Sines and cosines of one position, for the lane's pairs.
template <class V>
struct RopeAngles {
    float cosine[HeadLanes<V>::pairs], sine[HeadLanes<V>::pairs];
};

template <class V>
PK_DEVICE RopeAngles<V> rope_angles(std::uint32_t position) {
    RopeAngles<V> angles{};
    if constexpr (V::has_rope) {
        for (std::uint32_t p = 0; p < HeadLanes<V>::pairs; ++p) {
            const std::uint32_t i = lane() + p * warp_lanes;
            if (i >= HeadLanes<V>::half) continue;
            const float angle = static_cast<float>(position) * rope_table<V>.value[i];
            angles.cosine[p] = ::cosf(angle);
            angles.sine[p] = ::sinf(angle);
        }
    }
    return angles;
}

// store(channel, value) for a head vector after the RMS norm (if Norm, with `weight`) and the rotation (if V
// has one). All lanes of one warp call.
template <class V, bool Norm, class Store>
PK_DEVICE void norm_and_rotate(const float* head, const bf16* weight, const RopeAngles<V>& angles,
                               Store store) {
    constexpr std::uint32_t half = HeadLanes<V>::half, pairs = HeadLanes<V>::pairs;
    float low[pairs], high[pairs];
    float squares = 0;
    for (std::uint32_t p = 0; p < pairs; ++p) {
        const std::uint32_t i = lane() + p * warp_lanes;
        low[p] = i < half ? head[i] : 0.0f;
        high[p] = i < half ? head[i + half] : 0.0f;
        if constexpr (Norm) squares = multiply_add(low[p], low[p], multiply_add(high[p], high[p], squares));
    }
    float factor = 1;
    if constexpr (Norm) {
        factor = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(V::head) + static_cast<float>(V::eps));
    }
    for (std::uint32_t p = 0; p < pairs; ++p) {
        const std::uint32_t i = lane() + p * warp_lanes;
        if (i >= half) continue;
        float a = low[p], b = high[p];
        if constexpr (Norm) {
            a *= factor * to_float(weight[i]);
            b *= factor * to_float(weight[i + half]);
        }
        if constexpr (V::has_rope) {
            const float rotated = multiply_add(-b, angles.sine[p], a * angles.cosine[p]);
            b = multiply_add(a, angles.sine[p], b * angles.cosine[p]);
            a = rotated;
        }
        store(i, a);
        store(i + half, b);
    }
}

}  // namespace pk::tile
