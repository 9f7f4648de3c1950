// Attention of a group: one KV head and its query heads, for every row of the step. The pages of keys and
// values come through the ring; what this step adds to the cache is put in place in shared memory.
//
// A span is worked on by the warps in turns of a unit, short ones several at a time; the results of units are
// folded in their order, the spans' in theirs, always by the same arithmetic, whoever computed them.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "mpk/cluster/keys.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/ptx/shared_load.hpp"
#include "pk/tile/rope.hpp"

namespace mpk::cluster {

#if PK_SM90

// Rows of `head` channels in the cache and in a page: the 16-byte pieces of token t are swapped by t % 8, so
// that ldmatrix finds those of eight tokens in different banks.
template <class D>
PK_DEVICE std::uint32_t swizzled(std::uint32_t token, std::uint32_t piece) {
    return token * (D::head * 2) + (piece ^ (token & 7)) * 16;
}

template <class D>
inline constexpr std::uint32_t page_tokens = page_bytes / (4 * D::head);  // keys first, then values

// Bytes from the start of the cache to the keys of a page; the values lie D::kv_heads * page bytes further.
template <class D>
PK_DEVICE std::uint64_t cache_offset(const Machine& m, std::uint32_t layer, std::uint32_t page,
                                     std::uint32_t head) {
    return ((layer * m.kv.pages + page) * 2 * D::kv_heads + head) * std::uint64_t{D::kv_page * D::head * 2};
}
template <class D>
inline constexpr std::uint64_t values_offset = std::uint64_t{D::kv_heads} * D::kv_page * D::head * 2;

namespace detail {

// a = a * fa + b * fb, rounded the same wherever it is used.
PK_DEVICE float fold(float a, float fa, float b, float fb) {
    return __fmaf_rn(a, fa, __fmul_rn(b, fb));
}

// A head vector after norm and rotation: put(channel, value). One warp.
template <class D, bool Norm, class Put>
PK_DEVICE void turn_head(const float* head, const pk::tile::bf16* norm, const float2* angles,
                         std::uint32_t lane, Put put) {
    constexpr std::uint32_t half = D::head / 2, pairs = half / 32;
    float low[pairs], high[pairs], squares = 0;
    PK_UNROLL
    for (std::uint32_t p = 0; p < pairs; ++p) {
        low[p] = head[lane + p * 32];
        high[p] = head[lane + p * 32 + half];
        squares = __fmaf_rn(low[p], low[p], __fmaf_rn(high[p], high[p], squares));
    }
    if constexpr (Norm) {
        const float scale = 1.0f / sqrtf(pk::warp_sum(squares) / D::head + static_cast<float>(D::head_eps));
        PK_UNROLL
        for (std::uint32_t p = 0; p < pairs; ++p) {
            low[p] *= scale * pk::tile::to_float(norm[lane + p * 32]);
            high[p] *= scale * pk::tile::to_float(norm[lane + p * 32 + half]);
        }
    }
    PK_UNROLL
    for (std::uint32_t p = 0; p < pairs; ++p) {
        const float2 a = angles[lane + p * 32];
        put(lane + p * 32, __fmaf_rn(low[p], a.x, -__fmul_rn(high[p], a.y)));
        put(lane + p * 32 + half, __fmaf_rn(high[p], a.x, __fmul_rn(low[p], a.y)));
    }
}

// The step's keys and values, bf16, to L::fresh; those of row r also to the cache, by member r % members.
template <class B>
PK_DEVICE void add_keys(B& block, std::uint32_t layer) {
    using D = typename B::D;
    using L = typename B::L;
    const std::uint32_t lane = block.lane();
    const auto* angles = block.template at<const float2>(L::angles);
    const auto* norms = block.template at<const pk::tile::bf16>(L::head_norms);
    for (std::uint32_t row = block.warp(); row < block.rows(); row += consumer_warps) {
        const float* key = block.template at<const float>(L::qkv) + row * B::S::qkv_rows + B::S::output_cols;
        const float* value = key + D::head;
        auto* fresh = block.template at<pk::tile::bf16>(L::fresh) + row * 2 * D::head;
        turn_head<D, D::has_k_norm>(key, norms + D::head, angles + row * (D::head / 2), lane,
                                    [&](std::uint32_t channel, float x) {
                                        fresh[channel] = pk::tile::to_bf16(x);
                                        fresh[D::head + channel] = pk::tile::to_bf16(value[channel]);
                                    });
        if (row % members != block.member()) continue;
        __syncwarp();
        const std::uint32_t position = block.board().position[row], token = position % D::kv_page;
        const std::uint32_t sequence = block.board().sequence[row];
        const std::uint32_t page =
            block.m.kv.page_table[sequence * block.m.kv.pages_per_sequence + position / D::kv_page];
        auto* to = static_cast<unsigned char*>(block.m.kv.data) +
                   cache_offset<D>(block.m, layer, page, block.cluster());
        for (std::uint32_t i = lane; i < 2 * D::head / 8; i += 32) {
            const std::uint32_t piece = i % (D::head / 8);
            *reinterpret_cast<uint4*>(to + (i < D::head / 8 ? 0 : values_offset<D>)+swizzled<D>(
                                               token, piece)) = reinterpret_cast<const uint4*>(fresh)[i];
        }
    }
}

// Positions of this step in a unit, from L::fresh to the page that was loaded before they were in the cache,
// and zeros for the values after the row's own. One warp.
template <class B>
PK_DEVICE void put_fresh(B& block, std::uint32_t row, std::uint32_t first_token, unsigned char* unit_data) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t pieces = D::head / 8;
    const std::uint32_t position = block.board().position[row], first = block.board().first[row];
    for (std::uint32_t i = block.lane(); i < unit * 2 * pieces; i += 32) {
        const std::uint32_t token = i / (2 * pieces), part = i % (2 * pieces), at = first_token + token;
        const bool value = part >= pieces;
        uint4 data = {};
        if (at <= position) {
            if (at < first) continue;
            data = block.template at<const uint4>(L::fresh)[(row - (position - at)) * 2 * pieces + part];
        } else if (!value) {
            continue;
        }
        *reinterpret_cast<uint4*>(unit_data + (value ? page_tokens<D> * D::head * 2 : 0) +
                                  swizzled<D>(token, part % pieces)) = data;
    }
    __syncwarp();
}

// Queries of a row: normed, rotated, scaled, bf16 in L::query, a row a head.
template <class B>
PK_DEVICE void put_queries(B& block, std::uint32_t row) {
    using D = typename B::D;
    using L = typename B::L;
    auto* to = block.template at<unsigned char>(L::query);
    for (std::uint32_t h = block.warp(); h < B::S::group_heads; h += consumer_warps) {
        const float* query = block.template at<const float>(L::qkv) + row * B::S::qkv_rows + h * D::head;
        turn_head<D, D::has_q_norm>(
            query, block.template at<const pk::tile::bf16>(L::head_norms),
            block.template at<const float2>(L::angles) + row * (D::head / 2), block.lane(),
            [&](std::uint32_t channel, float x) {
                *reinterpret_cast<pk::tile::bf16*>(to + swizzled<D>(h, channel / 8) + channel % 8 * 2) =
                    pk::tile::to_bf16(x * static_cast<float>(D::scale));
            });
    }
}

// This warp's units of the round; its result to `results` (as L::warp_partials) [warp].
template <class B>
PK_DEVICE void attend_round(B& block, std::uint32_t row, const Part& range, std::uint32_t results) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t steps = D::head / 16, units_of_page = page_tokens<D> / unit;
    constexpr float never = -1e30f;
    const std::uint32_t lane = block.lane(), g = lane / 4, i = lane % 4;
    const std::uint32_t position = block.board().position[row], first = block.board().first[row];
    const std::uint32_t query = block.address(L::query), query_row = lane % 16;
    const std::uint32_t key_row = lane / 16 * 8 + lane % 8, value_row = lane / 8 % 2 * 8 + lane % 8;
    float out[2 * steps][4] = {}, most = never, sum = 0;

    _Pragma("unroll 1") for (std::uint32_t base = range.begin; base < range.end; base += units_of_page) {
        const std::uint32_t page = block.wait_page();
        const std::uint32_t end = base + units_of_page < range.end ? base + units_of_page : range.end;
        bool wrote = false;
        _Pragma("unroll 1") for (std::uint32_t u = base + ((block.warp() - (base - range.begin)) & 7);
                                 u < end; u += consumer_warps) {
            const std::uint32_t offset = (u - base) * unit * D::head * 2;
            const std::uint32_t keys = page + offset, values = keys + page_tokens<D> * D::head * 2;
            if ((u + 1) * unit > first) {
                put_fresh(block, row, u * unit, block.page_data() + offset);
                wrote = true;
            }
            float score[2][4] = {};
            PK_UNROLL
            for (std::uint32_t k = 0; k < steps; ++k) {
                std::uint32_t q[4], key[4];
                pk::ptx::load_matrices(q, query + swizzled<D>(query_row, k * 2 + lane / 16));
                pk::ptx::load_matrices(key, keys + swizzled<D>(key_row, k * 2 + lane / 8 % 2));
                pk::ptx::mma_m16n8k16(score[0], q, {key[0], key[1]});
                pk::ptx::mma_m16n8k16(score[1], q, {key[2], key[3]});
            }
            // Rows 0..7 of the tile are the query heads; the others are not looked at.
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
            for (std::uint32_t n = 0; n < steps; ++n) {
                std::uint32_t value[4];
                pk::ptx::load_matrices_transposed(value, values + swizzled<D>(value_row, n * 2 + lane / 16));
                pk::ptx::mma_m16n8k16(out[2 * n], {low, 0, high, 0}, {value[0], value[1]});
                pk::ptx::mma_m16n8k16(out[2 * n + 1], {low, 0, high, 0}, {value[2], value[3]});
            }
        }
        // The next copy into this page (async proxy) comes after these writes.
        if (wrote) pk::ptx::fence_proxy_async_shared();
        block.release_page();
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (g >= B::S::group_heads) return;
    float* to =
        block.template at<float>(results) + block.warp() * (L::partial_bytes / 4) + g * L::partial_stride;
    PK_UNROLL
    for (std::uint32_t n = 0; n < 2 * steps; ++n) {
        *reinterpret_cast<float2*>(&to[n * 8 + i * 2]) = {out[n][0], out[n][1]};
    }
    if (i == 0) *reinterpret_cast<float2*>(&to[D::head]) = {most, sum};
}

// Four floats of a span's result, at offset 4 `piece`: channels, or the maximum and the sum. `first`: the
// warp that had its first unit.
template <class B>
PK_DEVICE float4 fold_warps(const B& block, std::uint32_t results, std::uint32_t piece, std::uint32_t first,
                            std::uint32_t warps) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t pieces = L::partial_stride / 4;
    const std::uint32_t channel = piece % pieces * 4;
    const float* head = block.template at<const float>(results) + first * (L::partial_bytes / 4) +
                        piece / pieces * L::partial_stride;
    float most = head[D::head];
    for (std::uint32_t w = 1; w < warps; ++w) most = fmaxf(most, head[w * (L::partial_bytes / 4) + D::head]);
    float4 x = {};
    if (channel == D::head) x.x = most;
    for (std::uint32_t w = 0; w < warps; ++w) {
        const float* p = head + w * (L::partial_bytes / 4);
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

// The result so far and the next span's: two channels with their head's maximum and sum.
struct Running {
    float most, sum, x, y;

    template <class D>
    PK_DEVICE void add(const float* head, std::uint32_t channel) {
        const float other = head[D::head], higher = fmaxf(most, other);
        const float keep = __expf(most - higher), take = __expf(other - higher);
        x = fold(x, keep, head[channel], take);
        y = fold(y, keep, head[channel + 1], take);
        sum = fold(sum, keep, head[D::head + 1], take);
        most = higher;
    }
};

// The row's result from the spans [0, count), each at slot(span), by every `Senders` threads for each pair of
// channels: use(column, two channels as bf16).
template <class B, class Slot, class Use>
PK_DEVICE void finish_row(const B& block, std::uint32_t count, std::uint32_t copies, Slot slot, Use use) {
    using D = typename B::D;
    constexpr std::uint32_t pairs = D::head / 2;
    for (std::uint32_t t = block.thread(); t < B::S::output_cols / 2 * copies; t += consumers) {
        const std::uint32_t pair = t / copies, head = pair / pairs, channel = pair % pairs * 2;
        const std::uint32_t at = head * B::L::partial_stride;
        const float* p = slot(0) + at;
        Running total{p[D::head], p[D::head + 1], p[channel], p[channel + 1]};
        for (std::uint32_t s = 1; s < count; ++s) total.add<D>(slot(s) + at, channel);
        const float scale = 1.0f / total.sum;
        use(head * D::head + channel, bf16_pair(total.x * scale, total.y * scale));
    }
}

}  // namespace detail

// From L::qkv to L::attended, in all members of the cluster.
template <class B>
PK_DEVICE void attend(B& block, std::uint32_t layer) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t R = B::rows_room, pieces = L::partial_bytes / 16;
    block.begin(layer, LayerOp::attention);
    const std::uint32_t rows = block.rows();
    if constexpr (R > 1) block.expect(Exchange::attention, rows * B::S::output_cols * 2);
    detail::add_keys(block, layer);

    std::uint32_t turn = 0;
    Deal<D::jit_attention> deal(block.board().position, rows, block.member());
    _Pragma("unroll 1") for (std::uint32_t row = 0; row < rows; ++row) {
        const Spans spans(block.board().position[row]);
        std::uint32_t owner = 0;
        const Part mine = deal.next(spans, owner);
        if constexpr (R == 1) block.expect(Exchange::partial, spans.count * L::partial_bytes);
        if (mine.begin < mine.end) {
            detail::put_queries(block, row);
            block.sync();
        }
        _Pragma("unroll 1") for (std::uint32_t span = mine.begin; span < mine.end; span += spans.round()) {
            const Part range = spans.of(span, mine.end);
            const std::uint32_t results = L::warp_partials + turn * L::warps_bytes;
            turn = (turn + 1) % L::warp_buffers;
            detail::attend_round(block, row, range, results);
            block.sync();
            const std::uint32_t count =
                (range.count() + spans.length - 1) / spans.length;  // spans of the round
            const auto fold = [&](std::uint32_t piece, std::uint32_t i) {
                const std::uint32_t first = i * spans.length, left = range.count() - first;
                const std::uint32_t units = left < spans.length ? left : spans.length;
                return detail::fold_warps(block, results, piece, first % consumer_warps,
                                          units < consumer_warps ? units : consumer_warps);
            };
            if constexpr (R == 1) {
                // Every member gets every span: that saves the way back from an owner.
                for (std::uint32_t t = block.thread(); t < pieces * count * members; t += consumers) {
                    const std::uint32_t j = t / members, i = j / pieces, piece = j % pieces;
                    const float4 x = fold(piece, i);
                    block.send(Exchange::partial, L::partials + (span + i) * L::partial_bytes + piece * 16,
                               reinterpret_cast<const uint4&>(x));
                }
            } else {
                // The owner's own spans lie apart: those of others may come while it works on a row before.
                const std::uint32_t base = block.base_of(owner);
                for (std::uint32_t t = block.thread(); t < pieces * count; t += consumers) {
                    const std::uint32_t i = t / pieces, piece = t % pieces;
                    const std::uint32_t at = (span + i) * L::partial_bytes + piece * 16;
                    const float4 x = fold(piece, i);
                    if (owner == block.member()) {
                        *block.template at<float4>(L::own_partials + at) = x;
                    } else {
                        pk::ptx::store_peer(base + L::partials + at, reinterpret_cast<const uint4&>(x),
                                            base + B::barrier_offset(Exchange::partial));
                    }
                }
            }
            if constexpr (L::warp_buffers == 1) block.sync();
        }
        if constexpr (R > 1) {
            if (mine.begin != 0 || mine.end == 0) continue;
            if (mine.end < spans.count) {
                block.expect(Exchange::partial, (spans.count - mine.end) * L::partial_bytes);
                block.wait(Exchange::partial, block.op);
            }
            block.sync();
            const auto slot = [&](std::uint32_t s) {
                constexpr std::uint32_t own = L::own_partials, others = L::partials;
                return block.template at<float>((s < mine.end ? own : others) + s * L::partial_bytes);
            };
            detail::finish_row(
                block, spans.count, members, slot, [&](std::uint32_t column, std::uint32_t pair) {
                    block.send(Exchange::attention,
                               L::attended + column / chunk * (R * 64) + row * 64 + column % chunk * 2, pair);
                });
            block.sync();
        }
    }
    if constexpr (R == 1) {
        block.wait(Exchange::partial, block.op + 1);
        const Spans spans(block.board().position[0]);
        const auto slot = [&](std::uint32_t s) {
            return block.template at<float>(L::partials + s * L::partial_bytes);
        };
        detail::finish_row(block, spans.count, 1, slot, [&](std::uint32_t column, std::uint32_t pair) {
            *block.template at<std::uint32_t>(L::attended + column / chunk * 64 + column % chunk * 2) = pair;
        });
        block.sync();
    } else {
        block.wait(Exchange::attention, block.op + 1);
    }
}

#endif

}  // namespace mpk::cluster
