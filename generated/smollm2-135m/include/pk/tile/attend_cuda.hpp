// Attention of one token row by warps. Keys come in blocks of 32, one a lane; block b belongs to part b % 8,
// and the parts are combined in order. Eight warps take a part each (combine), or one warp takes them one
// after the other (merge): the result is the same to the bit.
#pragma once

#include "pk/platform/block.hpp"
#include "pk/tile/online_softmax.hpp"

namespace pk::tile {

inline constexpr std::uint32_t key_block = 32, key_parts = block_warps;

// A softmax-weighted sum of value rows for each of Heads query heads; the lane holds channels
// 2 (lane + 32 t) and 2 (lane + 32 t) + 1 in value[..][2 t], value[..][2 t + 1].
template <std::uint32_t Heads, std::uint32_t Channels>
struct Attended {
    static constexpr std::uint32_t pairs = (Channels / 2 + warp_lanes - 1) / warp_lanes;
    float most[Heads], weight[Heads], value[Heads][2 * pairs];
};

// Room for the parts of one row.
template <std::uint32_t Heads, std::uint32_t Channels>
struct AttendScratch {
    alignas(16) float query[block_warps][Heads][Channels];
    float most[key_parts][Heads], weight[key_parts][Heads];
    float value[key_parts][Heads][Channels];
};

// One part: the keys 0 .. position of the blocks part, part + 8, .. . One warp calls.
template <std::uint32_t Heads, std::uint32_t Channels, class Rows>
PK_DEVICE Attended<Heads, Channels> attend_part(const float (&query)[Heads][Channels], const Rows& rows,
                                                std::uint32_t position, std::uint32_t part) {
    using State = Attended<Heads, Channels>;
    State state;
    PK_UNROLL
    for (std::uint32_t h = 0; h < Heads; ++h) {
        state.most[h] = -INFINITY;
        state.weight[h] = 0;
        PK_UNROLL
        for (std::uint32_t c = 0; c < 2 * State::pairs; ++c) state.value[h][c] = 0;
    }
    for (std::uint32_t base = part * key_block; base <= position; base += key_parts * key_block) {
        const bool in_reach = base + lane() <= position;
        const std::uint64_t offset = rows.offset(in_reach ? base + lane() : position);
        float score[Heads] = {};
        const auto* key = reinterpret_cast<const uint4*>(rows.base + offset);
#pragma unroll 8
        for (std::uint32_t c = 0; c < Channels / 8; ++c) {
            const uint4 packed = key[c];
            const std::uint32_t words[4] = {packed.x, packed.y, packed.z, packed.w};
            PK_UNROLL
            for (std::uint32_t h = 0; h < Heads; ++h) {
                PK_UNROLL
                for (std::uint32_t w = 0; w < 4; ++w) {
                    const float2 q = *reinterpret_cast<const float2*>(&query[h][c * 8 + w * 2]);
                    score[h] = multiply_add(q.x, bits_float(words[w] << 16), score[h]);
                    score[h] = multiply_add(q.y, bits_float(words[w] & 0xffff0000u), score[h]);
                }
            }
        }
        PK_UNROLL
        for (std::uint32_t h = 0; h < Heads; ++h) {
            const float mine = in_reach ? score[h] : -INFINITY;
            const Rescale scale = rescale(state.most[h], warp_max(mine));
            score[h] = exp(mine - scale.most);
            state.most[h] = scale.most;
            state.weight[h] = multiply_add(state.weight[h], scale.left, warp_sum(score[h]));
            PK_UNROLL
            for (std::uint32_t c = 0; c < 2 * State::pairs; ++c) state.value[h][c] *= scale.left;
        }
        // Keys out of reach have weight 0 and read the value row of the last key.
        const std::uint32_t keys = position + 1 - base < key_block ? position + 1 - base : key_block;
        for (std::uint32_t k = 0; k < keys; k += 4) {
            std::uint32_t packed[4][State::pairs];
            PK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
                const auto* value = reinterpret_cast<const std::uint32_t*>(
                    rows.base + broadcast(offset, k + i) + Rows::to_values);
                PK_UNROLL
                for (std::uint32_t t = 0; t < State::pairs; ++t) {
                    const std::uint32_t pair = lane() + warp_lanes * t;
                    packed[i][t] = pair < Channels / 2 ? value[pair] : 0;
                }
            }
            PK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
                PK_UNROLL
                for (std::uint32_t h = 0; h < Heads; ++h) {
                    const float p = broadcast(score[h], k + i);
                    PK_UNROLL
                    for (std::uint32_t t = 0; t < State::pairs; ++t) {
                        float (&value)[2 * State::pairs] = state.value[h];
                        value[2 * t] = multiply_add(p, bits_float(packed[i][t] << 16), value[2 * t]);
                        value[2 * t + 1] =
                            multiply_add(p, bits_float(packed[i][t] & 0xffff0000u), value[2 * t + 1]);
                    }
                }
            }
        }
    }
    return state;
}

// store(head, channel, value) for one row, all parts by the calling warp; query is the warp's own.
template <std::uint32_t Heads, std::uint32_t Channels, class Rows, class Store>
PK_DEVICE void attend_by_warp(const float (&query)[Heads][Channels], const Rows& rows, std::uint32_t position,
                              Store store) {
    using State = Attended<Heads, Channels>;
    State total = attend_part(query, rows, position, 0);
    for (std::uint32_t part = 1; part < key_parts && part * key_block <= position; ++part) {
        const State next = attend_part(query, rows, position, part);
        PK_UNROLL
        for (std::uint32_t h = 0; h < Heads; ++h) {
            const Rescale scale = rescale(total.most[h], next.most[h]);
            total.most[h] = scale.most;
            total.weight[h] = blend(scale, total.weight[h], next.weight[h]);
            PK_UNROLL
            for (std::uint32_t c = 0; c < 2 * State::pairs; ++c) {
                total.value[h][c] = blend(scale, total.value[h][c], next.value[h][c]);
            }
        }
    }
    PK_UNROLL
    for (std::uint32_t h = 0; h < Heads; ++h) {
        PK_UNROLL
        for (std::uint32_t t = 0; t < State::pairs; ++t) {
            const std::uint32_t channel = 2 * (lane() + warp_lanes * t);
            if (channel >= Channels) continue;
            store(h, channel, total.value[h][2 * t] / total.weight[h]);
            store(h, channel + 1, total.value[h][2 * t + 1] / total.weight[h]);
        }
    }
}

// store(head, channel, value) for one row, a part a warp. All threads call with the query in every warp's
// room.
template <std::uint32_t Heads, std::uint32_t Channels, class Rows, class Store>
PK_DEVICE void attend_by_block(AttendScratch<Heads, Channels>& scratch, const Rows& rows,
                               std::uint32_t position, Store store) {
    using State = Attended<Heads, Channels>;
    const std::uint32_t part = warp();
    if (part * key_block <= position) {
        const State state = attend_part(scratch.query[part], rows, position, part);
        PK_UNROLL
        for (std::uint32_t h = 0; h < Heads; ++h) {
            if (lane() == 0) {
                scratch.most[part][h] = state.most[h];
                scratch.weight[part][h] = state.weight[h];
            }
            PK_UNROLL
            for (std::uint32_t t = 0; t < State::pairs; ++t) {
                const std::uint32_t channel = 2 * (lane() + warp_lanes * t);
                if (channel >= Channels) continue;
                scratch.value[part][h][channel] = state.value[h][2 * t];
                scratch.value[part][h][channel + 1] = state.value[h][2 * t + 1];
            }
        }
    }
    sync_block();
    for (std::uint32_t i = thread_rank(); i < Heads * Channels; i += block_threads) {
        const std::uint32_t h = i / Channels, channel = i % Channels;
        float most = scratch.most[0][h], weight = scratch.weight[0][h], value = scratch.value[0][h][channel];
        for (std::uint32_t next = 1; next < key_parts && next * key_block <= position; ++next) {
            const Rescale scale = rescale(most, scratch.most[next][h]);
            most = scale.most;
            weight = blend(scale, weight, scratch.weight[next][h]);
            value = blend(scale, value, scratch.value[next][h][channel]);
        }
        store(h, channel, value / weight);
    }
    sync_block();
}

}  // namespace pk::tile
