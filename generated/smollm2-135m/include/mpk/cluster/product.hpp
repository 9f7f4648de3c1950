// Products of streamed weights with activations in shared memory: out[row] = sum over columns of weight[out]
// * x[row]. Weights are the 16-row operand of the tensor core, rows of the batch the 8-column one, so that a
// batch of one costs what a batch of eight does.
//
// A page holds chunks of 32 columns; of each chunk the tiles of a band, a tile being 16 rows x 32 columns,
// row-major. Warp w takes chunks w, w + 8, ...; the warps' sums are added in their order, so a row's result
// does not depend on the other rows. Lane 4 g + i reads columns 8 i .. 8 i + 7 of rows g and g + 8: within a
// chunk the columns are permuted alike in both operands, which changes the order of additions only.
#pragma once

#include "mpk/cluster/block.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/ptx/shared_load.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// `Chunks` chunks of this warp, 8 apart. sums[tile][half of the rows][fragment].
template <std::uint32_t TileCount, std::uint32_t R, std::uint32_t Chunks>
PK_DEVICE void multiply(float (&sums)[TileCount][R == 16 ? 2 : 1][4], std::uint32_t page, std::uint32_t x) {
    constexpr std::uint32_t halves = R == 16 ? 2 : 1;
    uint4 weight[Chunks][TileCount][2], row[Chunks][halves];
    PK_UNROLL
    for (std::uint32_t c = 0; c < Chunks; ++c) {
        PK_UNROLL
        for (std::uint32_t h = 0; h < halves; ++h) {
            row[c][h] = pk::ptx::load_shared(x + c * 8 * R * 64 + h * 512);
        }
        PK_UNROLL
        for (std::uint32_t t = 0; t < TileCount; ++t) {
            weight[c][t][0] = pk::ptx::load_shared(page + (c * 8 * TileCount + t) * tile_bytes);
            weight[c][t][1] = pk::ptx::load_shared(page + (c * 8 * TileCount + t) * tile_bytes + 512);
        }
    }
    PK_UNROLL
    for (std::uint32_t c = 0; c < Chunks; ++c) {
        PK_UNROLL
        for (std::uint32_t h = 0; h < halves; ++h) {
            const uint4 r = row[c][h];
            PK_UNROLL
            for (std::uint32_t t = 0; t < TileCount; ++t) {
                const uint4 a = weight[c][t][0], b = weight[c][t][1];
                pk::ptx::mma_m16n8k16(sums[t][h], {a.x, b.x, a.y, b.y}, {r.x, r.y});
            }
            PK_UNROLL
            for (std::uint32_t t = 0; t < TileCount; ++t) {
                const uint4 a = weight[c][t][0], b = weight[c][t][1];
                pk::ptx::mma_m16n8k16(sums[t][h], {a.z, b.z, a.w, b.w}, {r.z, r.w});
            }
        }
    }
}

// A band of TileCount tiles over all columns; this warp's sums go to room[warp][row][output].
template <std::uint32_t TileCount, class B>
PK_DEVICE void sum_band(B& block, std::uint32_t x, std::uint32_t chunks, float* room) {
    constexpr std::uint32_t R = B::rows_room, per_page = B::L::page_chunks(TileCount);
    constexpr std::uint32_t halves = R == 16 ? 2 : 1, stride = B::L::sum_stride;
    const std::uint32_t lane = block.lane(), warp = block.warp(), g = lane / 4, i = lane % 4;
    float sums[TileCount][halves][4] = {};
    x += warp * (R * 64) + (R == 1 ? i : lane) * 16;
    const std::uint32_t mine = lane * 16 + warp * TileCount * tile_bytes;
    _Pragma("unroll 1") for (std::uint32_t left = chunks; left > 0;) {
        const std::uint32_t page = block.wait_page() + mine;
        if (left >= per_page) {
            multiply<TileCount, R, per_page / 8>(sums, page, x);
        } else {
            _Pragma("unroll 1") for (std::uint32_t c = 0; c + warp < left; c += 8) {
                multiply<TileCount, R, 1>(sums, page + c * TileCount * tile_bytes, x + c * R * 64);
            }
        }
        block.release_page();
        x += per_page * R * 64;
        left = left > per_page ? left - per_page : 0;
    }
    PK_UNROLL
    for (std::uint32_t t = 0; t < TileCount; ++t) {
        if constexpr (R == 1) {
            if (i != 0) continue;
            room[warp * stride + t * tile + g] = sums[t][0][0];
            room[warp * stride + t * tile + g + 8] = sums[t][0][2];
        } else {
            PK_UNROLL
            for (std::uint32_t h = 0; h < halves; ++h) {
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
        _Pragma("unroll 1") for (std::uint32_t b = first; b < last; ++b) {
            float* slot = room + (b - first) * (L::sum_bytes / 4);
            const std::uint32_t left = tiles - b * band;
            if (left >= 4) {
                detail::sum_band<4>(block, x, stream.chunks, slot);
            } else if (left == 3) {
                detail::sum_band<3>(block, x, stream.chunks, slot);
            } else if (left == 2) {
                detail::sum_band<2>(block, x, stream.chunks, slot);
            } else {
                detail::sum_band<1>(block, x, stream.chunks, slot);
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
