// Attention of a group: one KV head and its query heads, for every row of the step. The pages of keys and
// values come through the ring; what this step adds to the cache is read from where it was made.
//
// The warps go through a member's units without waiting for each other, and leave their lanes: a warp's
// result of some units of a span. Then lanes are folded in their order to the span's result, and the spans
// of a row in theirs, always by the same arithmetic, whoever computed them.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "mpk/cluster/heads.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/ptx/shared_load.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// A lane: [head][channels, maximum, sum, maximum and sum of the span folded in place].
template <class B>
PK_DEVICE float* lane_at(const B& block, std::uint32_t lane) {
    return block.template at<float>(B::L::lanes) + lane * (B::L::partial_bytes / 4);
}

// This warp's units of the round; what it adds up of them to its lane.
template <class B>
PK_DEVICE void attend_round(B& block, const Round& round) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t steps = D::head / 16, units_of_page = L::page_tokens / unit;
    constexpr float never = -1e30f;
    const std::uint32_t lane = block.lane(), g = lane / 4, i = lane % 4;
    const std::uint32_t row = round.row;
    const std::uint32_t position = block.board().position[row];
    const std::uint32_t mine = (block.warp() - round.lane) & 7;  // of the round's lanes
    // The tile has 16 rows, of which those past the heads repeat the last one and are not looked at.
    const std::uint32_t query = block.address(L::query + row * L::row_query_bytes);
    const std::uint32_t query_row = min(lane % 16, B::S::group_heads - 1);
    const std::uint32_t key_row = lane / 16 * 8 + lane % 8, value_row = lane / 8 % 2 * 8 + lane % 8;
    float out[2 * steps][4] = {}, most = never, sum = 0;

    _Pragma("unroll 1") for (std::uint32_t base = round.begin; base < round.end; base += units_of_page) {
        const std::uint32_t page = block.wait_page();
        const std::uint32_t end = min(base + units_of_page, std::uint32_t{round.end});
        _Pragma("unroll 1") for (std::uint32_t u = base + ((mine - (base - round.begin)) & 7); u < end;
                                 u += consumer_warps) {
            const std::uint32_t keys = page + (u - base) * unit * D::head * 2;
            const std::uint32_t values = keys + L::page_tokens * D::head * 2;
            const HeadRow key_at =
                head_row(block, row, u * unit + key_row, keys + key_row * D::head * 2, false);
            const HeadRow value_at =
                head_row(block, row, u * unit + value_row, values + value_row * D::head * 2, true);
            // Loads go ahead of what uses them, four steps of keys at a time, and two sums of each score, so
            // that the tensor core does not wait for its last result.
            float score[2][4] = {}, odd[2][4] = {};
            PK_UNROLL
            for (std::uint32_t from = 0; from < steps; from += 4) {
                std::uint32_t q[4][4], key[4][4];
                PK_UNROLL
                for (std::uint32_t k = 0; k < 4; ++k) {
                    const std::uint32_t piece = (from + k) * 2;
                    pk::ptx::load_matrices(q[k], query + swizzled<D>(query_row, piece + lane / 16));
                    pk::ptx::load_matrices(key[k], key_at.at(piece + lane / 8 % 2));
                }
                PK_UNROLL
                for (std::uint32_t k = 0; k < 4; k += 2) {
                    pk::ptx::mma_m16n8k16(score[0], q[k], {key[k][0], key[k][1]});
                    pk::ptx::mma_m16n8k16(score[1], q[k], {key[k][2], key[k][3]});
                    pk::ptx::mma_m16n8k16(odd[0], q[k + 1], {key[k + 1][0], key[k + 1][1]});
                    pk::ptx::mma_m16n8k16(odd[1], q[k + 1], {key[k + 1][2], key[k + 1][3]});
                }
            }
            std::uint32_t value[4][4];
            const auto load_values = [&](std::uint32_t from) {
                PK_UNROLL
                for (std::uint32_t n = 0; n < 4; ++n) {
                    pk::ptx::load_matrices_transposed(value[n], value_at.at((from + n) * 2 + lane / 16));
                }
            };
            load_values(0);
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
            for (std::uint32_t from = 0; from < steps; from += 4) {
                if (from != 0) load_values(from);
                PK_UNROLL
                for (std::uint32_t n = 0; n < 4; ++n) {
                    const std::uint32_t (&v)[4] = value[n];
                    pk::ptx::mma_m16n8k16(out[2 * (from + n)], {low, 0, high, 0}, {v[0], v[1]});
                    pk::ptx::mma_m16n8k16(out[2 * (from + n) + 1], {low, 0, high, 0}, {v[2], v[3]});
                }
            }
        }
        block.release_page();
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (g >= B::S::group_heads || mine >= round.count()) return;
    float* to = lane_at(block, round.lane + mine) + g * L::partial_stride;
    PK_UNROLL
    for (std::uint32_t n = 0; n < 2 * steps; ++n) {
        *reinterpret_cast<float2*>(&to[n * 8 + i * 2]) = {out[n][0], out[n][1]};
    }
    if (i == 0) *reinterpret_cast<float2*>(&to[D::head]) = {most, sum};
}

// Four floats of a span's result, at offset 4 `piece`, from its lanes: channels, or the maximum and the sum.
template <class B>
PK_DEVICE float4 fold_lanes(const B& block, std::uint32_t first_lane, std::uint32_t lanes,
                            std::uint32_t piece) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t pieces = L::partial_stride / 4, stride = L::partial_bytes / 4;
    const std::uint32_t channel = piece % pieces * 4;
    const float* head = lane_at(block, first_lane) + piece / pieces * L::partial_stride;
    float most = head[D::head];
    for (std::uint32_t w = 1; w < lanes; ++w) most = fmaxf(most, head[w * stride + D::head]);
    float4 x = {};
    if (channel == D::head) x.x = most;
    for (std::uint32_t w = 0; w < lanes; ++w) {
        const float* p = head + w * stride;
        const float factor = __expf(p[D::head] - most);
        if (channel == D::head) {
            x.y = __fmaf_rn(p[D::head + 1], factor, x.y);
        } else {
            const float4 y = *reinterpret_cast<const float4*>(&p[channel]);
            x = {__fmaf_rn(y.x, factor, x.x), __fmaf_rn(y.y, factor, x.y), __fmaf_rn(y.z, factor, x.z),
                 __fmaf_rn(y.w, factor, x.w)};
        }
    }
    return x;
}

// Folds the spans of a round: put(span, piece, lane of the span's first result, value). `copies` threads put
// the same: put's last argument is which of them this is.
template <class B, class Put>
PK_DEVICE void fold_round(const B& block, const Round& round, std::uint32_t copies, Put put) {
    constexpr std::uint32_t pieces = B::L::partial_bytes / 16;
    const std::uint32_t length = Spans(block.board().position[round.row]).length;
    const std::uint32_t count = (round.count() + length - 1) / length;
    for (std::uint32_t t = block.thread(); t < pieces * count * copies; t += consumers) {
        const std::uint32_t piece = t % pieces, i = t / pieces % count, copy = t / pieces / count;
        const std::uint32_t units = min(round.count() - i * length, length), lane = round.lane + i * length;
        put(round.span + i, piece, lane, fold_lanes(block, lane, min(units, consumer_warps), piece), copy);
    }
}

// Some channels of the spans so far, with their head's maximum and sum.
template <std::uint32_t Pairs>
struct Running {
    float most, sum;
    float2 x[Pairs];

    PK_DEVICE void add(float other_most, float other_sum, const float2 (&other)[Pairs]) {
        const float higher = fmaxf(most, other_most);
        const float keep = __expf(most - higher), take = __expf(other_most - higher);
        PK_UNROLL
        for (std::uint32_t p = 0; p < Pairs; ++p) {
            x[p].x = fold(x[p].x, keep, other[p].x, take);
            x[p].y = fold(x[p].y, keep, other[p].y, take);
        }
        sum = fold(sum, keep, other_sum, take);
        most = higher;
    }
};

// Channels of a row's result from the spans [0, count), each at slot(span) with its maximum and sum at
// totals(span): use(column, the channels as pairs of bf16). A thread has 2 Pairs channels, or `copies`
// threads have the same.
template <std::uint32_t Pairs, class B, class Slot, class Use>
PK_DEVICE void finish_row(const B& block, std::uint32_t count, std::uint32_t copies, Slot slot, Use use) {
    using D = typename B::D;
    constexpr std::uint32_t each = 2 * Pairs, of_head = D::head / each;
    for (std::uint32_t t = block.thread(); t < B::S::output_cols / each * copies; t += consumers) {
        const std::uint32_t piece = t / copies, head = piece / of_head, channel = piece % of_head * each;
        Running<Pairs> total;
        for (std::uint32_t s = 0; s < count; ++s) {
            std::uint32_t totals = D::head;
            const float* p = slot(s, totals) + head * B::L::partial_stride;
            const float2 most_sum = *reinterpret_cast<const float2*>(p + totals);
            float2 x[Pairs];
            PK_UNROLL
            for (std::uint32_t i = 0; i < Pairs; ++i)
                x[i] = *reinterpret_cast<const float2*>(p + channel + 2 * i);
            if (s == 0) {
                total.most = most_sum.x;
                total.sum = most_sum.y;
                PK_UNROLL
                for (std::uint32_t i = 0; i < Pairs; ++i) total.x[i] = x[i];
            } else {
                total.add(most_sum.x, most_sum.y, x);
            }
        }
        const float scale = 1.0f / total.sum;
        std::uint32_t pair[Pairs];
        PK_UNROLL
        for (std::uint32_t i = 0; i < Pairs; ++i)
            pair[i] = bf16_pair(total.x[i].x * scale, total.x[i].y * scale);
        use(head * D::head + channel, pair);
    }
}

// A batch of one: every member gets every span, which saves the way back from an owner.
template <class B>
PK_DEVICE void attend_one(B& block) {
    using L = typename B::L;
    const Spans spans(block.board().position[0]);
    const bool all = spans.length == 1;  // every member computes every span
    if (!all) block.expect(Exchange::partial, spans.count * L::partial_bytes);
    const bool has_span = block.board().rounds != 0;  // one round at most
    const Round round = *block.template at<const Round>(L::rounds);
    if (has_span) attend_round(block, round);
    block.sync();
    if (!all) {
        constexpr std::uint32_t pieces = L::partial_bytes / 16;
        constexpr std::uint32_t copies = pieces < consumers ? consumers / pieces : 1;
        if (has_span) {
            fold_round(block, round, copies,
                       [&](std::uint32_t span, std::uint32_t piece, auto, float4 x, std::uint32_t copy) {
                           const std::uint32_t at = L::partials + span * L::partial_bytes + piece * 16;
                           for (std::uint32_t rank = copy; rank < members; rank += copies) {
                               block.send_to(rank, Exchange::partial, at, reinterpret_cast<const uint4&>(x));
                           }
                       });
        }
        block.wait(Exchange::partial, block.op + 1);
    }
    const std::uint32_t from = all ? L::lanes : L::partials;
    const auto slot = [&](std::uint32_t s, auto&) {
        return block.template at<const float>(from + s * L::partial_bytes);
    };
    finish_row<1>(block, spans.count, 1, slot, [&](std::uint32_t column, const std::uint32_t (&pair)[1]) {
        *block.template at<std::uint32_t>(L::attended + column / chunk * 64 + column % chunk * 2) = pair[0];
    });
    block.sync();
}

// The spans of a group of rounds that others own to their owners; the rest is folded where it lies, or to
// L::own_partials if its row has several groups.
template <class B>
PK_DEVICE void fold_group(B& block, const Round* rounds, std::uint32_t count) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t pieces = L::partial_stride / 4;
    _Pragma("unroll 1") for (std::uint32_t i = 0; i < count; ++i) {
        const Round round = rounds[i];
        const RowShare mine = block.board().share[round.row];
        const bool own = mine.owner == block.member();
        // Where each span is a single lane nothing is left to do.
        if (own && !round.split && Spans(block.board().position[round.row]).length == 1) continue;
        fold_round(block, round, 1,
                   [&](std::uint32_t span, std::uint32_t piece, std::uint32_t lane, float4 x, auto) {
                       const std::uint32_t at = span * L::partial_bytes + piece * 16;
                       if (!own) {
                           block.send_to(mine.owner, Exchange::partial, L::partials + at,
                                         reinterpret_cast<const uint4&>(x));
                       } else if (round.split) {
                           *block.template at<float4>(L::own_partials + at) = x;
                       } else {
                           float* to = lane_at(block, lane) + piece * 4;
                           if (piece % pieces == D::head / 4) {
                               *reinterpret_cast<float2*>(to + 2) = {
                                   x.x, x.y};  // others may still read the lane's
                           } else {
                               *reinterpret_cast<float4*>(to) = x;
                           }
                       }
                   });
    }
}

// The rows that this member owns and whose last round of its own is in the group, to all members.
template <class B>
PK_DEVICE void finish_group(B& block, const Round* rounds, std::uint32_t count) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t R = B::rows_room;
    _Pragma("unroll 1") for (std::uint32_t i = 0; i < count; ++i) {
        const Round round = rounds[i];
        const std::uint32_t row = round.row;
        const RowShare mine = block.board().share[row];
        if (!round.last || mine.owner != block.member()) continue;
        if (!mine.has_last()) {
            block.expect(Exchange::partial, (mine.count - mine.end) * L::partial_bytes);
            block.wait(Exchange::partial, block.op);
        }
        const std::uint32_t length = Spans(block.board().position[row]).length;
        const std::uint32_t lanes = min(length, consumer_warps);  // of a span
        const auto slot = [&](std::uint32_t s, std::uint32_t& totals) -> const float* {
            if (s >= mine.end) return block.template at<const float>(L::partials + s * L::partial_bytes);
            if (round.split) return block.template at<const float>(L::own_partials + s * L::partial_bytes);
            if (length > 1) totals = D::head + 2;
            return lane_at(block, round.first_lane + s * lanes);
        };
        finish_row<4>(block, mine.count, members, slot,
                      [&](std::uint32_t column, const std::uint32_t (&pair)[4]) {
                          block.send(Exchange::attention,
                                     L::attended + column / chunk * (R * 64) + row * 64 + column % chunk * 2,
                                     reinterpret_cast<const uint4&>(pair));
                      });
    }
}

template <class B>
PK_DEVICE void attend_rows(B& block) {
    const std::uint32_t rows = block.rows();
    block.expect(Exchange::attention, rows * B::S::output_cols * 2);
    const auto* rounds = block.template at<const Round>(B::L::rounds);
    const std::uint32_t count = block.board().rounds;
    _Pragma("unroll 1") for (std::uint32_t first = 0, end; first < count; first = end) {
        end = first;
        do {
            attend_round(block, rounds[end]);
            ++end;
        } while (end < count && !rounds[end].opens);
        block.sync();
        fold_group(block, rounds + first, end - first);
        block.sync();
        finish_group(block, rounds + first, end - first);
        if (end < count) block.sync();
    }
    block.wait(Exchange::attention, block.op + 1);
}

}  // namespace detail

// From L::qkv to L::attended, in all members of the cluster.
template <class B>
PK_DEVICE void attend(B& block, std::uint32_t layer) {
    block.begin(layer, LayerOp::attention);
    detail::put_heads(block, layer);
    block.sync();
    if constexpr (B::rows_room == 1) {
        detail::attend_one(block);
    } else {
        detail::attend_rows(block);
    }
}

#endif

}  // namespace mpk::cluster
