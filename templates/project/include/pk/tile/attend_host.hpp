// Attention of one token row by one thread, 8 channels at a time (4 without AVX). Keys come in blocks of 32,
// in order.
#pragma once

#include "pk/platform/block.hpp"
#include "pk/tile/online_softmax.hpp"
#include "pk/tile/vector.hpp"

namespace pk::tile {

inline constexpr std::uint32_t key_block = 32;
inline constexpr std::uint32_t channel_lanes = lanes < 8 ? lanes : 8;  // a head has a multiple of 8 channels

// The query of each head of a group, and what has been summed up.
template <std::uint32_t Heads, std::uint32_t Channels>
struct AttendScratch {
    alignas(64) float query[block_warps][Heads][Channels];
    alignas(64) float value[Heads][Channels];
    alignas(64) float score[Heads][key_block];
};

// store(head, channel, value) for one row whose scaled query is in scratch.query[0].
template <std::uint32_t Heads, std::uint32_t Channels, class Rows, class Store>
inline void attend(AttendScratch<Heads, Channels>& scratch, const Rows& rows, std::uint32_t position,
                   Store store) {
    using F = Floats<channel_lanes>;
    static_assert(Channels % 8 == 0);
    float most[Heads], weight[Heads] = {};
    for (std::uint32_t h = 0; h < Heads; ++h) {
        most[h] = -INFINITY;
        for (std::uint32_t c = 0; c < Channels; ++c) scratch.value[h][c] = 0;
    }
    for (std::uint32_t base = 0; base <= position; base += key_block) {
        const std::uint32_t keys = position + 1 - base < key_block ? position + 1 - base : key_block;
        const bf16* key[key_block];
        for (std::uint32_t k = 0; k < keys; ++k) key[k] = rows.key(base + k);
        for (std::uint32_t k = 0; k < keys; ++k) {
            F sums[Heads] = {};
            for (std::uint32_t c = 0; c < Channels; c += channel_lanes) {
                const F x = load_bf16<channel_lanes>(key[k] + c);
#pragma GCC unroll 8
                for (std::uint32_t h = 0; h < Heads; ++h) sums[h] += load<F>(&scratch.query[0][h][c]) * x;
            }
            for (std::uint32_t h = 0; h < Heads; ++h) scratch.score[h][k] = sum<channel_lanes>(sums[h]);
        }
        for (std::uint32_t h = 0; h < Heads; ++h) {
            float* score = scratch.score[h];
            for (std::uint32_t k = keys; k < key_block; ++k) score[k] = -INFINITY;
            float largest = score[0];
            for (std::uint32_t k = 1; k < keys; ++k) largest = score[k] > largest ? score[k] : largest;
            const Rescale scale = rescale(most[h], largest);
            most[h] = scale.most;
            F total = {};
            for (std::uint32_t k = 0; k < key_block; k += channel_lanes) {
                const F p = exp<channel_lanes>(load<F>(score + k) - scale.most);
                store_vector(score + k, p);
                total += p;
            }
            weight[h] = multiply_add(weight[h], scale.left, sum<channel_lanes>(total));
            for (std::uint32_t c = 0; c < Channels; ++c) scratch.value[h][c] *= scale.left;
        }
        for (std::uint32_t c = 0; c < Channels; c += channel_lanes) {
            F sums[Heads];
            for (std::uint32_t h = 0; h < Heads; ++h) sums[h] = load<F>(&scratch.value[h][c]);
            for (std::uint32_t k = 0; k < keys; ++k) {
                const F x = load_bf16<channel_lanes>(key[k] + Rows::to_values + c);
#pragma GCC unroll 8
                for (std::uint32_t h = 0; h < Heads; ++h) sums[h] += scratch.score[h][k] * x;
            }
            for (std::uint32_t h = 0; h < Heads; ++h) store_vector(&scratch.value[h][c], sums[h]);
        }
    }
    for (std::uint32_t h = 0; h < Heads; ++h) {
        for (std::uint32_t c = 0; c < Channels; ++c) store(h, c, scratch.value[h][c] / weight[h]);
    }
}

}  // namespace pk::tile
