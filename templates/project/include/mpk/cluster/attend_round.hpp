// Attention of the units of a stretch by a warp: scores, their softmax so far, and the sum of the values.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "mpk/cluster/heads.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/ptx/shared_load.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// What a stretch leaves: [head][channels, maximum, sum, maximum and sum of the span added up in place].
template <class B>
PK_DEVICE float* slot_at(const B& block, std::uint32_t slot) {
    return block.template at<float>(B::L::lanes) + slot * (B::L::partial_bytes / 4);
}

// How two sums of different maxima become one.
struct Merge {
    float most, keep, take;
    PK_DEVICE Merge(float mine, float other) {
        most = fmaxf(mine, other);
        keep = __expf(mine - most);
        take = __expf(other - most);
    }
    PK_DEVICE float operator()(float a, float b) const { return fold(a, keep, b, take); }
};
inline constexpr float never = -1e30f;  // the maximum of nothing

// Of lanes 4 g + i with the same i.
PK_DEVICE float most_of_tokens(float x) {
    PK_UNROLL
    for (std::uint32_t step = 4; step < 32; step *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}
PK_DEVICE float sum_of_tokens(float x) {
    PK_UNROLL
    for (std::uint32_t step = 4; step < 32; step *= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

// A round of stretches, of which this warp has one; what it adds up to that one's slot.
template <class B>
PK_DEVICE void attend_round(B& block, const Stretch* round) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t steps = D::head / 16, units_of_page = L::page_tokens / unit;
    constexpr bool spans = B::rows_room > 1;  // some stretches may have several lanes
    static_assert(B::S::group_heads <= 8 && steps % 2 == 0);
    const std::uint32_t lane = block.lane(), g = lane / 4, i = lane % 4;
    const std::uint32_t count = uniform(round->together), longest = uniform(round->steps);
    const std::uint32_t warp = block.uniform_warp();
    const bool has_one = warp < count;
    const Stretch mine = round[has_one ? warp : 0];
    const std::uint32_t row = mine.row, units = has_one ? uniform(mine.count) : 0;
    const std::uint32_t position = block.board().position[row];
    const std::uint32_t query = block.address(L::query + row * L::row_query_bytes);
    const std::uint32_t key_row = lane % 16, value_row = lane / 16 * 8 + lane % 8;
    // The tile has 8 heads, of which those past the last one repeat it and are not looked at.
    const std::uint32_t query_row = min(lane % 8, B::S::group_heads - 1);
    // Lane 4 g + i has of heads 2 i and 2 i + 1 the tokens g and g + 8 of the unit, then the channels g and
    // g + 8 of each 16.
    float out[steps][4] = {}, most[2] = {never, never}, sum[2] = {};
    // Of all lanes but the last.
    constexpr std::uint32_t kept = spans ? steps : 1;
    float before[kept][4] = {}, most_before[2] = {never, never}, sum_before[2] = {};
    std::uint32_t of_lane = 0;  // units
    const auto end_lane = [&] {
        PK_UNROLL
        for (std::uint32_t e = 0; e < 2; ++e) {
            sum[e] = sum_of_tokens(sum[e]);
            if constexpr (spans) {
                const Merge merge(most_before[e], most[e]);
                PK_UNROLL
                for (std::uint32_t n = 0; n < steps; ++n) {
                    before[n][e] = merge(before[n][e], out[n][e]);
                    before[n][e + 2] = merge(before[n][e + 2], out[n][e + 2]);
                    out[n][e] = out[n][e + 2] = 0;
                }
                sum_before[e] = merge(sum_before[e], sum[e]);
                most_before[e] = merge.most;
                most[e] = never;
                sum[e] = 0;
            }
        }
        of_lane = 0;
    };

    _Pragma("unroll 1") for (std::uint32_t step = 0; step < longest; ++step) {
        _Pragma("unroll 1") for (std::uint32_t from = 0; from < count; from += units_of_page) {
            const std::uint32_t page = block.wait_page();
            const std::uint32_t place = warp - from;  // of the unit in the page
            if (place >= units_of_page || step >= units) {
                block.release_page();
                continue;
            }
            const std::uint32_t u = mine.begin + step;
            const std::uint32_t keys = page + place * unit_bytes<D>, values = keys + values_offset<D>;
            const HeadRow key_at =
                head_row(block, row, u * unit + key_row, keys + key_row * D::head * 2, false);
            const HeadRow value_at =
                head_row(block, row, u * unit + value_row, values + value_row * D::head * 2, true);
            // Loads go ahead of what uses them, some steps at a time, and two sums of each score, so
            // that the tensor core does not wait for its last result.
            constexpr std::uint32_t ahead = steps < 4 ? steps : 4;
            float score[4] = {}, odd[4] = {};
            PK_UNROLL
            for (std::uint32_t k = 0; k < steps; k += ahead) {
                std::uint32_t key[ahead][4], q[ahead / 2][4];
                PK_UNROLL
                for (std::uint32_t a = 0; a < ahead; ++a) {
                    const std::uint32_t piece = (k + a) * 2;
                    pk::ptx::load_matrices(key[a], key_at.at(piece + lane / 16));
                    if (a % 2 == 0) {
                        pk::ptx::load_matrices(q[a / 2], query + swizzled<D>(query_row, piece + lane / 8));
                    }
                }
                PK_UNROLL
                for (std::uint32_t a = 0; a < ahead; a += 2) {
                    const std::uint32_t (&two)[4] = q[a / 2];
                    pk::ptx::mma_m16n8k16(score, key[a], {two[0], two[1]});
                    pk::ptx::mma_m16n8k16(odd, key[a + 1], {two[2], two[3]});
                }
            }
            std::uint32_t value[ahead][4];
            const auto load_values = [&](std::uint32_t n) {
                PK_UNROLL
                for (std::uint32_t a = 0; a < ahead; ++a) {
                    pk::ptx::load_matrices_transposed(value[a], value_at.at((n + a) * 2 + lane / 8 % 2));
                }
            };
            load_values(0);
            PK_UNROLL
            for (std::uint32_t e = 0; e < 4; ++e) {
                score[e] += odd[e];
                if (u * unit + g + e / 2 * 8 > position) score[e] = never;
            }
            PK_UNROLL
            for (std::uint32_t e = 0; e < 2; ++e) {
                const float higher = fmaxf(most[e], most_of_tokens(fmaxf(score[e], score[e + 2])));
                const float shrink = __expf(most[e] - higher);
                most[e] = higher;
                score[e] = __expf(score[e] - higher);
                score[e + 2] = __expf(score[e + 2] - higher);
                sum[e] = __fmaf_rn(sum[e], shrink, score[e] + score[e + 2]);
                PK_UNROLL
                for (std::uint32_t n = 0; n < steps; ++n) {
                    out[n][e] *= shrink;
                    out[n][e + 2] *= shrink;
                }
            }
            // Of head g tokens 2 i and 2 i + 1, and those 8 further.
            const std::uint32_t weight[2] = {pk::ptx::transpose_matrix(bf16_pair(score[0], score[1])),
                                             pk::ptx::transpose_matrix(bf16_pair(score[2], score[3]))};
            PK_UNROLL
            for (std::uint32_t n = 0; n < steps; n += ahead) {
                if (n != 0) load_values(n);
                PK_UNROLL
                for (std::uint32_t a = 0; a < ahead; ++a) pk::ptx::mma_m16n8k16(out[n + a], value[a], weight);
            }
            block.release_page();
            if (++of_lane == mine.lane || step + 1 == units) end_lane();
        }
    }
    if (!has_one) return;
    float* to = slot_at(block, mine.slot);
    PK_UNROLL
    for (std::uint32_t e = 0; e < 2; ++e) {
        const std::uint32_t head = i * 2 + e;
        if (head >= B::S::group_heads) continue;
        float* of_head = to + head * L::partial_stride;
        PK_UNROLL
        for (std::uint32_t n = 0; n < steps; ++n) {
            const float (&x)[4] = spans ? before[n % kept] : out[n];
            of_head[n * 16 + g] = x[e];
            of_head[n * 16 + g + 8] = x[e + 2];
        }
        if (g != 0) continue;
        *reinterpret_cast<float2*>(&of_head[D::head]) = {spans ? most_before[e] : most[e],
                                                         spans ? sum_before[e] : sum[e]};
    }
    if constexpr (spans) {
        // A span of a row that another member finishes.
        const std::uint32_t owner = block.board().share[row].owner;
        if (!mine.whole || owner == block.member()) return;
        __syncwarp();
        const auto* from = reinterpret_cast<const uint4*>(slot_at(block, mine.slot));
        for (std::uint32_t piece = lane; piece < L::partial_bytes / 16; piece += 32) {
            block.send_to(owner, Exchange::partial, L::partials + mine.span * L::partial_bytes + piece * 16,
                          from[piece]);
        }
    }
}

}  // namespace detail

#endif

}  // namespace mpk::cluster
