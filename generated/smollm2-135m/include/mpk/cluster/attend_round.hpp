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

// A round of stretches, of which this warp has one; what it adds up to that one's slot.
template <class B>
PK_DEVICE void attend_round(B& block, const Stretch* round) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t steps = D::head / 16, units_of_page = L::page_tokens / unit;
    constexpr bool spans = B::rows_room > 1;  // some stretches may have several lanes
    const std::uint32_t lane = block.lane(), g = lane / 4, i = lane % 4;
    const std::uint32_t count = round->together;
    const bool has_one = block.warp() < count;
    const Stretch mine = round[has_one ? block.warp() : 0];
    const std::uint32_t row = mine.row, units = has_one ? mine.count : 0;
    const std::uint32_t position = block.board().position[row], longest = round->steps;
    // The tile has 16 rows, of which those past the heads repeat the last one and are not looked at.
    const std::uint32_t query = block.address(L::query + row * L::row_query_bytes);
    const std::uint32_t query_row = min(lane % 16, B::S::group_heads - 1);
    const std::uint32_t key_row = lane / 16 * 8 + lane % 8, value_row = lane / 8 % 2 * 8 + lane % 8;
    // Steps of a head whose operands are in registers together.
    constexpr bool tight = spans && steps > 4;  // else there are registers for more
    constexpr std::uint32_t ahead = tight ? 2 : 4;
    float out[2 * steps][4] = {}, most = never, sum = 0;
    // Of all lanes but the last.
    constexpr std::uint32_t kept = spans ? 2 * steps : 1;
    float before[kept][2] = {}, most_before = never, sum_before = 0;
    std::uint32_t of_lane = 0;  // units
    const auto end_lane = [&] {
        sum += __shfl_xor_sync(~0u, sum, 1);
        sum += __shfl_xor_sync(~0u, sum, 2);
        if constexpr (spans) {
            const Merge merge(most_before, most);
            PK_UNROLL
            for (std::uint32_t n = 0; n < 2 * steps; ++n) {
                before[n][0] = merge(before[n][0], out[n][0]);
                before[n][1] = merge(before[n][1], out[n][1]);
                out[n][0] = out[n][1] = 0;
            }
            sum_before = merge(sum_before, sum);
            most_before = merge.most;
            most = never;
            sum = 0;
        }
        of_lane = 0;
    };

    _Pragma("unroll 1") for (std::uint32_t step = 0; step < longest; ++step) {
        _Pragma("unroll 1") for (std::uint32_t from = 0; from < count; from += units_of_page) {
            const std::uint32_t page = block.wait_page();
            const std::uint32_t place = block.warp() - from;  // of the unit in the page
            if (place >= units_of_page || step >= units) {
                block.release_page();
                continue;
            }
            const std::uint32_t u = mine.begin + step;
            const std::uint32_t keys = page + place * unit * D::head * 2;
            const std::uint32_t values = keys + L::page_tokens * D::head * 2;
            const HeadRow key_at =
                head_row(block, row, u * unit + key_row, keys + key_row * D::head * 2, false);
            const HeadRow value_at =
                head_row(block, row, u * unit + value_row, values + value_row * D::head * 2, true);
            // Loads go ahead of what uses them, some steps at a time, and two sums of each score, so
            // that the tensor core does not wait for its last result.
            float score[2][4] = {}, odd[2][4] = {};
            PK_UNROLL
            for (std::uint32_t from = 0; from < steps; from += ahead) {
                std::uint32_t q[ahead][4], key[ahead][4];
                PK_UNROLL
                for (std::uint32_t k = 0; k < ahead; ++k) {
                    const std::uint32_t piece = (from + k) * 2;
                    pk::ptx::load_matrices(q[k], query + swizzled<D>(query_row, piece + lane / 16));
                    pk::ptx::load_matrices(key[k], key_at.at(piece + lane / 8 % 2));
                }
                PK_UNROLL
                for (std::uint32_t k = 0; k < ahead; k += 2) {
                    pk::ptx::mma_m16n8k16(score[0], q[k], {key[k][0], key[k][1]});
                    pk::ptx::mma_m16n8k16(score[1], q[k], {key[k][2], key[k][3]});
                    pk::ptx::mma_m16n8k16(odd[0], q[k + 1], {key[k + 1][0], key[k + 1][1]});
                    pk::ptx::mma_m16n8k16(odd[1], q[k + 1], {key[k + 1][2], key[k + 1][3]});
                }
            }
            std::uint32_t value[ahead][4];
            const auto load_values = [&](std::uint32_t from) {
                PK_UNROLL
                for (std::uint32_t n = 0; n < ahead; ++n) {
                    pk::ptx::load_matrices_transposed(value[n], value_at.at((from + n) * 2 + lane / 16));
                }
            };
            if (!tight) load_values(0);
            PK_UNROLL
            for (std::uint32_t n = 0; n < 2; ++n) {
                PK_UNROLL
                for (std::uint32_t e = 0; e < 2; ++e) score[n][e] += odd[n][e];
            }
            float local = never;
            PK_UNROLL
            for (std::uint32_t n = 0; n < 2; ++n) {
                PK_UNROLL
                for (std::uint32_t e = 0; e < 2; ++e) {
                    if (u * unit + n * 8 + i * 2 + e > position) score[n][e] = never;
                    local = fmaxf(local, score[n][e]);
                }
            }
            local = fmaxf(local, __shfl_xor_sync(~0u, local, 1));
            local = fmaxf(local, __shfl_xor_sync(~0u, local, 2));
            const float higher = fmaxf(most, local), shrink = __expf(most - higher);
            most = higher;
            float added = 0;
            PK_UNROLL
            for (std::uint32_t n = 0; n < 2; ++n) {
                PK_UNROLL
                for (std::uint32_t e = 0; e < 2; ++e) {
                    score[n][e] = __expf(score[n][e] - higher);
                    added += score[n][e];
                }
            }
            sum = __fmaf_rn(sum, shrink, added);
            PK_UNROLL
            for (std::uint32_t n = 0; n < 2 * steps; ++n) {
                out[n][0] *= shrink;
                out[n][1] *= shrink;
            }
            const std::uint32_t low = bf16_pair(score[0][0], score[0][1]),
                                high = bf16_pair(score[1][0], score[1][1]);
            PK_UNROLL
            for (std::uint32_t from = 0; from < steps; from += ahead) {
                if (tight || from != 0) load_values(from);
                PK_UNROLL
                for (std::uint32_t n = 0; n < ahead; ++n) {
                    const std::uint32_t (&v)[4] = value[n];
                    pk::ptx::mma_m16n8k16(out[2 * (from + n)], {low, 0, high, 0}, {v[0], v[1]});
                    pk::ptx::mma_m16n8k16(out[2 * (from + n) + 1], {low, 0, high, 0}, {v[2], v[3]});
                }
            }
            block.release_page();
            if (++of_lane == mine.lane || step + 1 == units) end_lane();
        }
    }
    if (!has_one) return;
    if (g < B::S::group_heads) {
        float* to = slot_at(block, mine.slot) + g * L::partial_stride;
        PK_UNROLL
        for (std::uint32_t n = 0; n < 2 * steps; ++n) {
            const auto& x = spans ? before[n % kept] : reinterpret_cast<const float (&)[2]>(out[n]);
            *reinterpret_cast<float2*>(&to[n * 8 + i * 2]) = {x[0], x[1]};
        }
        if (i == 0) {
            *reinterpret_cast<float2*>(&to[D::head]) = {spans ? most_before : most, spans ? sum_before : sum};
        }
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
