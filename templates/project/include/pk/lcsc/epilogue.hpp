// From the sums of a tile in registers to where they go: the output, or the staging from which they are
// pushed to the tile's owner.
#pragma once

#include "pk/lcsc/block.hpp"
#include "pk/lcsc/lane.hpp"
#include "pk/lcsc/pieces.hpp"
#include "pk/ptx/system_memory.hpp"
#include "pk/tile/element.hpp"

namespace pk::lcsc {

namespace detail {

// Word b of lane i of four changes places with word i of lane b.
PK_DEVICE void transpose(std::uint32_t (&w)[4], std::uint32_t i) {
    PK_UNROLL
    for (std::uint32_t step = 1; step < 4; step *= 2) {
        const bool upper = (i & step) != 0;
        PK_UNROLL
        for (std::uint32_t b = 0; b < 4; ++b) {
            if ((b & step) != 0) continue;
            const std::uint32_t give = upper ? w[b] : w[b | step];
            const std::uint32_t take = __shfl_xor_sync(~0u, give, step);
            if (upper) {
                w[b] = take;
            } else {
                w[b | step] = take;
            }
        }
    }
}

}  // namespace detail

// Sums of 32 columns from `column` on, as elements: 16 bytes of a row for each lane. Columns come in whole
// eights.
template <class C, class Sum>
PK_DEVICE void store_columns(const Arguments& a, const Lane& lane, const Tile& tile, std::uint32_t column,
                             std::uint32_t columns, Sum sum) {
    using E = tile::Element<typename C::Type>;
    const std::uint32_t shard_row =
        tile.row - (C::reduce == Reduce::scatter ? a.shards.begin(tile.owner) : 0);
    PK_UNROLL
    for (std::uint32_t h = 0; h < 2; ++h) {
        const std::uint32_t row = lane.row(h), own = column + lane.i * 8;
        const bool there = row < tile.rows && own < columns;
        float added[8] = {};
        if constexpr (C::residual) {
            uint4 piece = {};
            const std::uint64_t from = std::uint64_t{shard_row + row} * a.residual_stride + own;
            if (there) piece = ptx::load_past_l1(static_cast<const std::uint16_t*>(a.residual) + from);
            std::uint32_t w[4] = {piece.x, piece.y, piece.z, piece.w};
            detail::transpose(w, lane.i);
            PK_UNROLL
            for (std::uint32_t b = 0; b < 4; ++b) E::unpack(w[b], added[b * 2], added[b * 2 + 1]);
        }
        if constexpr (C::bias) {
            PK_UNROLL
            for (std::uint32_t b = 0; b < 4; ++b) {
                const std::uint32_t c = column + b * 8 + lane.i * 2;
                if (c >= columns) continue;
                float low, high;
                E::unpack(load_relaxed(reinterpret_cast<const std::uint32_t*>(
                              static_cast<const std::uint16_t*>(a.bias) + c)),
                          low, high);
                added[b * 2] += low;
                added[b * 2 + 1] += high;
            }
        }
        std::uint32_t w[4];
        PK_UNROLL
        for (std::uint32_t b = 0; b < 4; ++b) {
            w[b] = E::pack(sum(b, h, 0) + added[b * 2], sum(b, h, 1) + added[b * 2 + 1]);
        }
        detail::transpose(w, lane.i);
        const std::uint64_t to = std::uint64_t{shard_row + row} * a.out_stride + own;
        if (there) ptx::store_16(static_cast<std::uint16_t*>(a.outs[a.rank]) + to, {w[0], w[1], w[2], w[3]});
    }
}

template <class C, std::uint32_t Sums>
PK_DEVICE void store_tile(const Arguments& a, const Lane& lane, const Tile& tile, const float (&c)[Sums]) {
    if constexpr (C::silu_mul) {
        PK_UNROLL
        for (std::uint32_t q = 0; q < Sums / 32; ++q) {
            store_columns<C>(a, lane, tile, tile.column / 2 + q * 32, a.n,
                             [&](std::uint32_t b, std::uint32_t h, std::uint32_t e) {
                                 const float gate = c[(q * 4 + b) * 4 + h * 2 + e];
                                 const float up = c[Sums / 2 + (q * 4 + b) * 4 + h * 2 + e];
                                 return gate / (1 + __expf(-gate)) * up;
                             });
        }
    } else {
        PK_UNROLL
        for (std::uint32_t q = 0; q < Sums / 16; ++q) {
            store_columns<C>(a, lane, tile, tile.column + q * 32, a.n,
                             [&](std::uint32_t b, std::uint32_t h, std::uint32_t e) {
                                 return c[(q * 4 + b) * 4 + h * 2 + e];
                             });
        }
    }
}

// Adds the summands of the other ranks, in the order of the ranks: the same order in every call.
template <class C>
PK_DEVICE void add_partials(const Block<C>& block, std::uint32_t thread, const Tile& tile,
                            float (&c)[Layout<C>::sums]) {
    for (std::uint32_t source = 0; source < block.a.world; ++source) {
        if (source != block.a.rank) add_sums<Pieces<C>>(block.partial(tile, source), thread, c);
    }
}

}  // namespace pk::lcsc
