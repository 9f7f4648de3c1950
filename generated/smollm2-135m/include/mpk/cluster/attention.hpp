// Attention of a group: one KV head and its query heads, for every row of the step. The pages of keys and
// values come through the ring; what this step adds to the cache is read from where it was made.
//
// The warps go through a member's stretches of units without waiting for each other. Some are whole spans; of
// those that were cut, lanes are added up to the span's result. Then spans are, to the row's. Always in their
// order and by the same arithmetic, whoever does it.
#pragma once

#include "mpk/cluster/attend_round.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// Four floats of a span's result, at offset 4 `piece`, from its lanes: channels, or the maximum and the sum.
template <class B>
PK_DEVICE float4 fold_lanes(const B& block, std::uint32_t first_slot, std::uint32_t lanes,
                            std::uint32_t piece) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t pieces = L::partial_stride / 4, stride = L::partial_bytes / 4;
    const std::uint32_t channel = piece % pieces * 4;
    const float* head = slot_at(block, first_slot) + piece / pieces * L::partial_stride;
    float most = never, sum = 0;
    float4 x = {};
    PK_UNROLL
    for (std::uint32_t w = 0; w < consumer_warps; ++w) {
        if (w >= lanes) continue;
        const float* p = head + w * stride;
        const Merge merge(most, p[D::head]);
        most = merge.most;
        sum = merge(sum, p[D::head + 1]);
        if (channel != D::head) {
            const float4 y = *reinterpret_cast<const float4*>(&p[channel]);
            x = {merge(x.x, y.x), merge(x.y, y.y), merge(x.z, y.z), merge(x.w, y.w)};
        }
    }
    return channel == D::head ? float4{most, sum, 0, 0} : x;
}

// Adds up the lanes of the spans among `count` stretches that were cut: put(stretch, the span's first one;
// piece, value). `copies` threads put the same: put's last argument is which of them this is.
template <class B, class Put>
PK_DEVICE void fold_spans(const B& block, const Stretch* stretches, std::uint32_t count, std::uint32_t copies,
                          Put put) {
    constexpr std::uint32_t pieces = B::L::partial_bytes / 16;
    _Pragma("unroll 1") for (std::uint32_t first = 0, end; first < count; first = end) {
        const Stretch one = stretches[first];
        end = first + 1;
        if (one.whole) continue;
        while (end < count && stretches[end].row == one.row && stretches[end].span == one.span) ++end;
        for (std::uint32_t t = block.thread(); t < pieces * copies; t += consumers) {
            put(one, t % pieces, fold_lanes(block, one.slot, end - first, t % pieces), t / pieces);
        }
    }
}

// Some channels of the spans so far, with their head's maximum and sum.
template <std::uint32_t Pairs>
struct Running {
    float most, sum;
    float2 x[Pairs];

    PK_DEVICE void add(float other_most, float other_sum, const float2 (&other)[Pairs]) {
        const Merge merge(most, other_most);
        PK_UNROLL
        for (std::uint32_t p = 0; p < Pairs; ++p) {
            x[p] = {merge(x[p].x, other[p].x), merge(x[p].y, other[p].y)};
        }
        sum = merge(sum, other_sum);
        most = merge.most;
    }
};

// 2 Pairs channels of a row's result, as pairs 8 channels apart, from the spans [0, count), each at
// slot(span) with its maximum and sum at totals(span): use(first channel's column, the pairs in bf16).
// `piece` counts them in the order of columns of the first ones.
template <std::uint32_t Pairs, class B, class Slot, class Use>
PK_DEVICE void finish_piece(const B&, std::uint32_t count, std::uint32_t piece, Slot slot, Use use) {
    using D = typename B::D;
    // Pairs that lie between two of the same piece.
    constexpr std::uint32_t between = Pairs == 1 ? 1 : 4;
    const std::uint32_t column = piece / between * (between * Pairs * 2) + piece % between * 2;
    const std::uint32_t head = column / D::head, channel = column % D::head;
    Running<Pairs> total;
    for (std::uint32_t s = 0; s < count; ++s) {
        std::uint32_t totals = D::head;
        const float* p = slot(s, totals) + head * B::L::partial_stride;
        const float2 most_sum = *reinterpret_cast<const float2*>(p + totals);
        float2 x[Pairs];
        PK_UNROLL
        for (std::uint32_t i = 0; i < Pairs; ++i)
            x[i] = *reinterpret_cast<const float2*>(p + channel + 8 * i);
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
    for (std::uint32_t i = 0; i < Pairs; ++i) pair[i] = bf16_pair(total.x[i].x * scale, total.x[i].y * scale);
    use(column, pair);
}

// A batch of one: every member gets every span, which saves the way back from an owner.
template <class B>
PK_DEVICE void attend_one(B& block) {
    using L = typename B::L;
    const Spans spans(block.board().position[0]);
    const bool all = spans.length == 1;  // every member computes every span
    if (!all) block.expect(Exchange::partial, spans.count * L::partial_bytes);
    const std::uint32_t count = block.board().stretches;  // of one span, one round at most
    const auto* stretches = block.template at<const Stretch>(L::stretches);
    if (count != 0) attend_round(block, stretches);
    block.sync();
    if (!all) {
        constexpr std::uint32_t pieces = L::partial_bytes / 16;
        constexpr std::uint32_t copies = pieces < consumers ? consumers / pieces : 1;
        fold_spans(block, stretches, count, copies,
                   [&](const Stretch& span, std::uint32_t piece, float4 x, std::uint32_t copy) {
                       const std::uint32_t at = L::partials + span.span * L::partial_bytes + piece * 16;
                       for (std::uint32_t rank = copy; rank < members; rank += copies) {
                           block.send_to(rank, Exchange::partial, at, reinterpret_cast<const uint4&>(x));
                       }
                   });
        block.wait(Exchange::partial, block.op + 1);
    }
    const std::uint32_t from = all ? L::lanes : L::partials;
    const auto slot = [&](std::uint32_t s, auto&) {
        return block.template at<const float>(from + s * L::partial_bytes);
    };
    for (std::uint32_t piece = block.thread(); piece < B::S::output_cols / 2; piece += consumers) {
        finish_piece<1>(
            block, spans.count, piece, slot, [&](std::uint32_t column, const std::uint32_t (&pair)[1]) {
                *block.template at<std::uint32_t>(L::attended + pair_offset(1, column, 0)) = pair[0];
            });
    }
    block.sync();
}

// Of a group the spans that were cut: to their owners, or folded where they lie.
template <class B>
PK_DEVICE void fold_group(B& block, const Stretch* group, std::uint32_t count) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t pieces = L::partial_stride / 4;
    fold_spans(block, group, count, 1, [&](const Stretch& span, std::uint32_t piece, float4 x, auto) {
        const std::uint32_t owner = block.board().share[span.row].owner;
        float* to = slot_at(block, span.slot) + piece * 4;
        if (owner != block.member()) {
            block.send_to(owner, Exchange::partial, L::partials + span.span * L::partial_bytes + piece * 16,
                          reinterpret_cast<const uint4&>(x));
        } else if (piece % pieces == D::head / 4) {
            *reinterpret_cast<float2*>(to + 2) = {x.x, x.y};  // others may still read the lane's
        } else {
            *reinterpret_cast<float4*>(to) = x;
        }
    });
}

// The rows of the group that this member owns, to all members.
template <class B>
PK_DEVICE void finish_group(B& block, const Stretch* group, std::uint32_t count) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t R = B::rows_room;
    // A piece of the activations a thread; some rows at a time.
    constexpr std::uint32_t pieces = B::S::output_cols / 8;
    constexpr std::uint32_t threads = pieces < consumers ? pieces : consumers, together = consumers / threads;
    std::uint32_t found = 0;
    _Pragma("unroll 1") for (std::uint32_t i = 0; i < count;) {
        const Stretch one = group[i];
        const std::uint32_t row = one.row;
        const RowShare mine = block.board().share[row];
        const Spans spans(block.board().position[row]);
        const std::uint32_t lane = Spans::lane_of(spans.length);
        const std::uint32_t slots = one.whole ? 1 : (spans.length + lane - 1) / lane;  // of a span
        // On to the next row: the last span may have fewer.
        if (one.whole) {
            i += mine.end - mine.begin;
        } else {
            while (!group[i++].last) {
            }
        }
        if (mine.owner != block.member()) continue;
        if (!mine.has_last()) {
            block.expect(Exchange::partial, (mine.count - mine.end) * L::partial_bytes);
            block.wait(Exchange::partial, block.op);
        }
        if (block.thread() / threads != found++ % together) continue;
        const auto slot = [&](std::uint32_t s, std::uint32_t& totals) -> const float* {
            if (s >= mine.end) return block.template at<const float>(L::partials + s * L::partial_bytes);
            if (!one.whole) totals = D::head + 2;
            return slot_at(block, one.first_slot + s * slots);
        };
        for (std::uint32_t piece = block.thread() % threads; piece < pieces; piece += threads) {
            finish_piece<4>(block, mine.count, piece, slot,
                            [&](std::uint32_t column, const std::uint32_t (&pair)[4]) {
                                block.send_all(Exchange::attention, L::attended + pair_offset(R, column, row),
                                               uint4{pair[0], pair[1], pair[2], pair[3]});
                            });
        }
    }
}

template <class B>
PK_DEVICE void attend_rows(B& block) {
    block.expect(Exchange::attention, block.rows() * B::S::output_cols * 2);
    const auto* stretches = block.template at<const Stretch>(B::L::stretches);
    const auto count = [&] { return block.board().stretches; };
    _Pragma("unroll 1") for (std::uint32_t first = 0, end; first < count(); first = end) {
        end = first;
        do {
            attend_round(block, stretches + end);
            end += stretches[end].together;
        } while (end < count() && !stretches[end].opens);
        block.sync();
        if (stretches[first].folds) {
            fold_group(block, stretches + first, end - first);
            block.sync();
        }
        finish_group(block, stretches + first, end - first);
        if (end < count()) block.sync();
    }
    block.wait(Exchange::attention, block.op + 1);
}

}  // namespace detail

// From L::qkv to L::attended, in all members of the cluster.
template <class B>
PK_DEVICE void attend(B& block, std::uint32_t layer) {
    block.begin(layer, LayerOp::attention);
    detail::put_heads(block, layer);
    // Of several rows, queries lie where peers copy the next activations.
    if constexpr (B::rows_room > 1) pk::ptx::fence_proxy_async_shared();
    block.sync();
    if constexpr (B::rows_room == 1) {
        detail::attend_one(block);
    } else {
        detail::attend_rows(block);
    }
}

#endif

}  // namespace mpk::cluster
