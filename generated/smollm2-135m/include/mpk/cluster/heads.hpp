// Heads of queries, keys and values: how the cache holds them, and what a step adds.
#pragma once

#include "mpk/cluster/block.hpp"
#include "pk/platform/block.hpp"
#include "pk/tile/rope.hpp"

namespace mpk::cluster {

#if PK_SM90

// Rows of `head` channels in the cache and in a page: the 16-byte pieces of token t are swapped by t % 8, so
// that ldmatrix finds those of eight tokens in different banks.
template <class D>
PK_DEVICE std::uint32_t swizzled(std::uint32_t token, std::uint32_t piece) {
    return token * (D::head * 2) + (piece ^ (token & 7)) * 16;
}

// A unit of tokens in the cache: its keys, then its values, so that one copy brings both. Bytes of it, and to
// its values.
template <class D>
inline constexpr std::uint32_t unit_bytes = unit * D::head * 4;
template <class D>
inline constexpr std::uint32_t values_offset = unit * D::head * 2;

// Bytes from the start of the cache to the unit of a token of a page, for one head.
template <class D>
PK_DEVICE std::uint64_t cache_offset(const Machine& m, std::uint32_t layer, std::uint32_t page,
                                     std::uint32_t head, std::uint32_t token) {
    constexpr std::uint32_t page_bytes = D::kv_page / unit * unit_bytes<D>;
    return ((layer * m.kv.pages + page) * D::kv_heads + head) * std::uint64_t{page_bytes} +
           token / unit * unit_bytes<D>;
}

namespace detail {

// Output `o` of the group's projection of a row in L::qkv.
template <class B>
PK_DEVICE float projected(const B& block, std::uint32_t row, std::uint32_t o) {
    return block.template at<const float>(B::L::qkv)[(o / tile * B::rows_room + row) * tile + o % tile];
}

// A head vector, channel by channel from head(), after norm and rotation: put(channel, value). One warp.
template <class D, bool Norm, class Head, class Put>
PK_DEVICE void turn_head(Head head, const pk::tile::bf16* norm, const float2* angles, std::uint32_t lane,
                         Put put) {
    constexpr std::uint32_t half = D::head / 2, pairs = half / 32;
    float low[pairs], high[pairs], squares = 0;
    PK_UNROLL
    for (std::uint32_t p = 0; p < pairs; ++p) {
        low[p] = head(lane + p * 32);
        high[p] = head(lane + p * 32 + half);
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

// A row's key and value, bf16, to L::fresh, and from there to the cache if `store`. One warp.
template <class B>
PK_DEVICE void add_key(B& block, std::uint32_t layer, std::uint32_t row, bool store) {
    using D = typename B::D;
    using L = typename B::L;
    const std::uint32_t lane = block.lane();
    const auto key = [&](std::uint32_t channel) {
        return projected(block, row, B::S::output_cols + channel);
    };
    auto* fresh = block.template at<pk::tile::bf16>(L::fresh) + row * 2 * D::head;
    turn_head<D, D::has_k_norm>(key, block.template at<const pk::tile::bf16>(L::head_norms) + D::head,
                                block.template at<const float2>(L::angles) + row * (D::head / 2), lane,
                                [&](std::uint32_t channel, float x) {
                                    fresh[channel] = pk::tile::to_bf16(x);
                                    fresh[D::head + channel] = pk::tile::to_bf16(key(D::head + channel));
                                });
    if (!store) return;
    __syncwarp();
    const std::uint32_t token = block.board().position[row] % D::kv_page;
    auto* to = static_cast<unsigned char*>(block.m.kv.data) +
               cache_offset<D>(block.m, layer, block.board().page[row], block.cluster(), token);
    for (std::uint32_t i = lane; i < 2 * D::head / 8; i += 32) {
        const std::uint32_t piece = i % (D::head / 8);
        const std::uint32_t at = (i < D::head / 8 ? 0 : values_offset<D>)+swizzled<D>(token % unit, piece);
        *reinterpret_cast<uint4*>(to + at) = reinterpret_cast<const uint4*>(fresh)[i];
    }
}

// Where a warp's lane finds a row of a matrix of keys or values: in a page, or in L::fresh where the page was
// loaded before the step's keys were in the cache. Address of 16-byte piece `p` of the row: at(p).
struct HeadRow {
    std::uint32_t base, swap;
    PK_DEVICE std::uint32_t at(std::uint32_t piece) const { return base + (piece ^ swap) * 16; }
};

// Token `token` of the row's sequence, which in the page lies at `page_row`. After the row's own position
// there is no token: the row's own stands in, a number at least.
template <class B>
PK_DEVICE HeadRow head_row(const B& block, std::uint32_t row, std::uint32_t token, std::uint32_t page_row,
                           bool value) {
    using D = typename B::D;
    const std::uint32_t position = block.board().position[row], first = block.board().first[row];
    if (token < first) return {page_row, token & 7};
    const std::uint32_t back = token < position ? position - token : 0;
    const std::uint32_t head = (row - back) * 2 + (value ? 1 : 0);
    return {block.address(B::L::fresh) + head * (D::head * 2), 0};
}

// A query head of a row: normed, rotated, scaled, bf16 in L::query. One warp.
template <class B>
PK_DEVICE void put_query(B& block, std::uint32_t row, std::uint32_t head) {
    using D = typename B::D;
    using L = typename B::L;
    const auto query = [&](std::uint32_t channel) { return projected(block, row, head * D::head + channel); };
    auto* to = block.template at<unsigned char>(L::query + row * L::row_query_bytes);
    turn_head<D, D::has_q_norm>(
        query, block.template at<const pk::tile::bf16>(L::head_norms),
        block.template at<const float2>(L::angles) + row * (D::head / 2), block.lane(),
        [&](std::uint32_t channel, float x) {
            *reinterpret_cast<pk::tile::bf16*>(to + swizzled<D>(head, channel / 8) + channel % 8 * 2) =
                pk::tile::to_bf16(x * static_cast<float>(D::scale));
        });
}

// The norm weights of the heads to shared memory. One warp; seen by all after the block's next barrier.
template <class B>
PK_DEVICE void fetch_head_norms(B& block, std::uint32_t layer) {
    using D = typename B::D;
    if constexpr (D::has_q_norm || D::has_k_norm) {
        constexpr std::uint32_t pieces = D::head / 8;
        const LayerWeights& weights = block.weights(layer);
        for (std::uint32_t i = block.lane(); i < 2 * pieces; i += 32) {
            const auto* norm = reinterpret_cast<const uint4*>(i < pieces ? weights.q_norm : weights.k_norm);
            if (norm != nullptr) block.template at<uint4>(B::L::head_norms)[i] = norm[i % pieces];
        }
    }
}

// What attention begins with: queries of the rows that this member has spans of; the keys that belong in
// those spans, of which the member with a row's last span writes the row's to the cache. A head a warp.
template <class B>
PK_DEVICE void put_heads(B& block, std::uint32_t layer) {
    constexpr std::uint32_t heads = B::S::group_heads, each = heads + 1;
    const std::uint32_t count = uniform(block.rows()) * each;
    _Pragma("unroll 1") for (std::uint32_t i = block.uniform_warp(); i < count; i += consumer_warps) {
        const std::uint32_t row = i / each, head = i % each;
        const RowShare mine = block.board().share[row];
        if (head < heads) {
            if (!mine.is_empty()) put_query(block, row, head);
        } else if (mine.has_last() || block.board().chunked != 0) {
            // Where all members have all spans, the first one writes to the cache.
            add_key(block, layer, row, mine.has_last() && (mine.begin != 0 || mine.owner == block.member()));
        }
    }
}

}  // namespace detail

#endif

}  // namespace mpk::cluster
