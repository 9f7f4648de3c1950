// Products of streamed weights with activations in shared memory: out[row] = sum over columns of weight[out]
// * x[row]. Weights are the 16-row operand of the tensor core, rows of the batch the 8-column one, so that a
// batch of one costs what a batch of eight does.
//
// A page holds chunks of 32 columns; of each chunk the tiles of a band, a tile being 16 rows x 32 columns.
// Warp w takes chunks w, w + 8, ...; the warps' sums are added in their order, so a row's result does not
// depend on the other rows. Lane 4 g + i has columns 8 i .. 8 i + 7 of rows g and g + 8: within a chunk the
// columns are permuted alike in both operands, which changes the order of additions only. In the page lie
// the operands of the two products of a tile one after the other, 16 bytes a lane.
#pragma once

#include "mpk/cluster/block.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/ptx/shared_load.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// What a warp has of one page, or of a part: for some chunks, 8 apart, the operands of some tiles.
template <std::uint32_t Chunks, std::uint32_t TileCount>
using Weights = uint4[Chunks][TileCount][2];
template <std::uint32_t R, std::uint32_t Chunks>
using Rows = uint4[Chunks][R == 16 ? 2 : 1];
// [tile][half of the rows][fragment]
template <std::uint32_t R, std::uint32_t TileCount>
using BandOfSums = float[TileCount][R == 16 ? 2 : 1][4];

// Tiles [First, First + Count) of the band's.
template <std::uint32_t First, std::uint32_t Count, std::uint32_t TileCount, std::uint32_t Chunks>
PK_DEVICE void load_weights(Weights<Chunks, Count>& weights, std::uint32_t page) {
    PK_UNROLL
    for (std::uint32_t c = 0; c < Chunks; ++c) {
        PK_UNROLL
        for (std::uint32_t t = 0; t < Count; ++t) {
            const std::uint32_t at = page + (c * 8 * TileCount + First + t) * tile_bytes;
            weights[c][t][0] = pk::ptx::load_shared(at);
            weights[c][t][1] = pk::ptx::load_shared(at + tile_bytes / 2);
        }
    }
}

template <std::uint32_t R, std::uint32_t Chunks>
PK_DEVICE void load_rows(Rows<R, Chunks>& rows, std::uint32_t x) {
    PK_UNROLL
    for (std::uint32_t c = 0; c < Chunks; ++c) {
        PK_UNROLL
        for (std::uint32_t h = 0; h < (R == 16 ? 2 : 1); ++h) {
            rows[c][h] = pk::ptx::load_shared(x + c * 8 * R * 64 + h * 512);
        }
    }
}

// Chunks from `left` on lie behind the band's end: what was loaded of them is not multiplied.
template <std::uint32_t First, std::uint32_t R, std::uint32_t Chunks, std::uint32_t Count,
          std::uint32_t TileCount>
PK_DEVICE void multiply(BandOfSums<R, TileCount>& sums, const Weights<Chunks, Count>& weights,
                        const Rows<R, Chunks>& rows, std::uint32_t warp, std::uint32_t left) {
    PK_UNROLL
    for (std::uint32_t c = 0; c < Chunks; ++c) {
        if (c * 8 + warp >= left) continue;
        PK_UNROLL
        for (std::uint32_t h = 0; h < (R == 16 ? 2 : 1); ++h) {
            const uint4 r = rows[c][h];
            PK_UNROLL
            for (std::uint32_t t = 0; t < Count; ++t) {
                const uint4 w = weights[c][t][0];
                pk::ptx::mma_m16n8k16(sums[First + t][h], {w.x, w.y, w.z, w.w}, {r.x, r.y});
            }
            PK_UNROLL
            for (std::uint32_t t = 0; t < Count; ++t) {
                const uint4 w = weights[c][t][1];
                pk::ptx::mma_m16n8k16(sums[First + t][h], {w.x, w.y, w.z, w.w}, {r.z, r.w});
            }
        }
    }
}

// This warp's sums of a band to room[warp][row][output].
template <std::uint32_t TileCount, class B>
PK_DEVICE void put_sums(const B& block, const BandOfSums<B::rows_room, TileCount>& sums, float* room) {
    constexpr std::uint32_t R = B::rows_room, stride = B::L::sum_stride;
    const std::uint32_t warp = block.warp(), g = block.lane() / 4, i = block.lane() % 4;
    PK_UNROLL
    for (std::uint32_t t = 0; t < TileCount; ++t) {
        if constexpr (R == 1) {
            if (i != 0) continue;
            room[warp * stride + t * tile + g] = sums[t][0][0];
            room[warp * stride + t * tile + g + 8] = sums[t][0][2];
        } else {
            PK_UNROLL
            for (std::uint32_t h = 0; h < R / 8; ++h) {
                PK_UNROLL
                for (std::uint32_t e = 0; e < 2; ++e) {
                    float* row = room + (warp * R + h * 8 + 2 * i + e) * stride + t * tile + g;
                    row[0] = sums[t][h][e];
                    row[8] = sums[t][h][e + 2];
                }
            }
        }
    }
}

// Bands of TileCount tiles over all columns, their sums to one place in `room` after the other. While a part
// of a page is multiplied, that of the next page, whichever band it is of, is on its way to registers.
template <std::uint32_t TileCount, class B>
PK_DEVICE void sum_bands(B& block, std::uint32_t x, std::uint32_t chunks, std::uint32_t bands, float* room) {
    constexpr std::uint32_t R = B::rows_room, per_page = B::L::page_chunks(TileCount), each = per_page / 8;
    // A page with several chunks for a warp, which few are, is one part.
    constexpr std::uint32_t first_tiles = each == 1 ? (TileCount + 1) / 2 : TileCount;
    constexpr std::uint32_t other_tiles = TileCount - first_tiles;
    const std::uint32_t lane = block.lane(), warp = block.warp();
    const std::uint32_t x_begin = x + warp * (R * 64) + (R == 1 ? lane % 4 : lane) * 16;
    const std::uint32_t mine = lane * 16 + warp * TileCount * tile_bytes;
    BandOfSums<R, TileCount> sums = {};
    Weights<each, first_tiles> weights;
    Weights<each, other_tiles == 0 ? 1 : other_tiles> others;
    Rows<R, each> rows, next_rows;
    std::uint32_t left = chunks, at = x_begin;  // of the page that is multiplied

    const auto end_page = [&] {
        if (left > per_page) {
            left -= per_page;
            at += per_page * R * 64;
            return;
        }
        put_sums<TileCount>(block, sums, room);
        room += B::L::sum_bytes / 4;
        PK_UNROLL
        for (auto& tile_sums : sums) {
            PK_UNROLL
            for (auto& half : tile_sums) half[0] = half[1] = half[2] = half[3] = 0;
        }
        left = chunks;
        at = x_begin;
    };
    const std::uint32_t pages = bands * ((chunks + per_page - 1) / per_page);
    if (pages == 0) {  // a cluster may have no columns of a small FFN
        for (left = 0; bands != 0; --bands) end_page();
        return;
    }
    std::uint32_t page = block.wait_page() + mine;
    load_rows<R, each>(rows, at);
    load_weights<0, first_tiles, TileCount, each>(weights, page);
    if constexpr (other_tiles != 0) load_weights<first_tiles, other_tiles, TileCount, each>(others, page);
    block.release_page();
    _Pragma("unroll 1") for (std::uint32_t p = 1; p < pages; ++p) {
        multiply<0, R>(sums, weights, rows, warp, left);
        page = block.wait_page() + mine;
        load_rows<R, each>(next_rows, left > per_page ? at + per_page * R * 64 : x_begin);
        load_weights<0, first_tiles, TileCount, each>(weights, page);
        if constexpr (other_tiles != 0) {
            multiply<first_tiles, R>(sums, others, rows, warp, left);
            load_weights<first_tiles, other_tiles, TileCount, each>(others, page);
        }
        block.release_page();
        end_page();
        PK_UNROLL
        for (std::uint32_t c = 0; c < each; ++c) {
            PK_UNROLL
            for (std::uint32_t h = 0; h < (R == 16 ? 2 : 1); ++h) rows[c][h] = next_rows[c][h];
        }
    }
    multiply<0, R>(sums, weights, rows, warp, left);
    if constexpr (other_tiles != 0) multiply<first_tiles, R>(sums, others, rows, warp, left);
    end_page();
}

}  // namespace detail

// Sums of the bands that have been worked on since the last emit.
template <class L, std::uint32_t R>
struct BandSums {
    const float* room;

    // Output `o` of these bands for a row: the warps' sums in their order.
    PK_DEVICE float at(std::uint32_t row, std::uint32_t o) const {
        const float* p =
            room + o / (band * tile) * (L::sum_bytes / 4) + row * L::sum_stride + o % (band * tile);
        float total = p[0];
        PK_UNROLL
        for (std::uint32_t w = 1; w < consumer_warps; ++w) total += p[w * R * L::sum_stride];
        return total;
    }
};

// All tiles of a stream: emit(first output, outputs, sums) for some bands at a time, between barriers of the
// consumers; what emit writes to shared memory is seen by all consumers after the next barrier.
template <class B, class Emit>
PK_DEVICE void product(B& block, std::uint32_t x, const Tiles& stream, Emit emit) {
    using L = typename B::L;
    float* room = block.template at<float>(L::sums);
    const std::uint32_t tiles = stream.tiles.count(), bands = (tiles + band - 1) / band;
    _Pragma("unroll 1") for (std::uint32_t first = 0; first < bands; first += L::sum_slots) {
        const std::uint32_t last = first + L::sum_slots < bands ? first + L::sum_slots : bands;
        const std::uint32_t whole = (last * band <= tiles ? last : last - 1) - first;
        if (whole != 0) detail::sum_bands<band>(block, x, stream.chunks, whole, room);
        if (first + whole != last) {
            float* slot = room + whole * (L::sum_bytes / 4);
            switch (tiles % band) {
                case 1:
                    detail::sum_bands<1>(block, x, stream.chunks, 1, slot);
                    break;
                case 2:
                    detail::sum_bands<2>(block, x, stream.chunks, 1, slot);
                    break;
                default:
                    detail::sum_bands<3>(block, x, stream.chunks, 1, slot);
            }
        }
        block.sync();
        const std::uint32_t end = tiles < last * band ? tiles : last * band;
        emit(first * band * tile, (end - first * band) * tile, BandSums<L, B::rows_room>{room});
        if (last < bands) block.sync();
    }
}

#endif

}  // namespace mpk::cluster
