// Products of streamed weights with activations in shared memory: out[row] = sum over columns of weight[out]
// * x[row]. The warpgroup's tensor core instructions read both where they lie: 64 rows of weights from the
// page, and the activations of 8 or 16 rows of the batch.
//
// A page holds chunks of 32 columns; of each chunk the tiles of a band, a tile being 16 rows x 32 columns.
// Warps w and w + 4 have tile w of the band. The first warpgroup takes the even chunks and the second the odd
// ones; when a band ends, the two warps of a tile give each other half of their sums. A row's result does not
// depend on the other rows. Weights and activations have the columns of a chunk in the same order
// (pair_offset, tape_piece). Where a band has fewer than four tiles, the instructions take what lies behind
// them for the others, whose sums nobody looks at.
#pragma once

#include "mpk/cluster/block.hpp"
#include "pk/ptx/wgmma.hpp"

namespace mpk::cluster {

#if PK_SM90

// What a thread has of the outputs of its warp's tile: output g and output g + 8 for some rows of the batch.
template <std::uint32_t R>
struct Outputs {
    static constexpr std::uint32_t rows = R == 16 ? 2 : 1;  // of a thread
    static constexpr std::uint32_t warp_rows = R == 1 ? 1 : R / 2;
    float low[rows], high[rows];

    // Row `k` of the thread in the batch, and among the warp's own. Of a batch of one only lanes with i = 0
    // have a row that there is, and only in the first warpgroup.
    PK_DEVICE static std::uint32_t row(std::uint32_t warp, std::uint32_t lane, std::uint32_t k) {
        return row_of_warp(warp, warp_row(lane, k));
    }
    PK_DEVICE static std::uint32_t warp_row(std::uint32_t lane, std::uint32_t k) {
        return R == 1 ? 0 : lane % 4 * rows + k;
    }
    PK_DEVICE static std::uint32_t row_of_warp(std::uint32_t warp, std::uint32_t local) {
        if (R == 1) return 0;
        return R == 8 ? local * 2 + warp / 4 : warp / 4 * 8 + local;
    }
    PK_DEVICE static bool is_there(std::uint32_t warp, std::uint32_t lane) {
        return R != 1 || (warp < 4 && lane % 4 == 0);
    }
};

namespace detail {

inline constexpr std::uint32_t batch_chunks = 4;  // of a warpgroup, whose products are issued together

// From a warpgroup's chunk of the activations to its next one, in units of 16 bytes.
template <std::uint32_t R>
inline constexpr std::uint32_t chunk_pieces = 2 * R * 64 / 16;

template <std::uint32_t R>
using TileSums = float[R == 16 ? 8 : 4];
// Of the first and of the second half of all chunks, as a product waits for the last one with the same sums.
template <std::uint32_t R>
using HalfSums = float[2][R == 16 ? 8 : 4];

// Starts the products of every other chunk: rows and pieces describe those of the first one, `stride` and so
// on those of the next, in units of 16 bytes.
template <std::uint32_t R, std::uint32_t Chunks>
PK_DEVICE void multiply(HalfSums<R>& sums, std::uint64_t rows, std::uint32_t stride, std::uint64_t pieces) {
    pk::ptx::wgmma_fence();
    PK_UNROLL
    for (std::uint32_t c = 0; c < Chunks; ++c) {
        PK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            pk::ptx::wgmma_m64k16(sums[half], rows + c * stride + half * (tape_piece(2, 0) / 16),
                                  pieces + c * chunk_pieces<R> + half * (2 * R));
        }
    }
}

// Half of a tile's sums to the other warp that has it, and the other half from there.
template <class B>
PK_DEVICE Outputs<B::rows_room> exchange_halves(B& block, const TileSums<B::rows_room>& sums,
                                                std::uint32_t slot) {
    constexpr std::uint32_t R = B::rows_room;
    const std::uint32_t thread = block.thread(), t = block.warp() % 4;
    const bool second = block.warp() >= 4;
    Outputs<R> out;
    if constexpr (R == 1) {
        auto* place = block.template at<float2>(B::L::halves) + slot * 32 + t * 8 + block.lane() / 4;
        if (second && block.lane() % 4 == 0) *place = {sums[0], sums[2]};
        pk::ptx::named_barrier_sync<64>(pair_barrier + t);
        const float2 other = *place;
        out = {{sums[0] + other.x}, {sums[2] + other.y}};
    } else if constexpr (R == 8) {
        auto* places = block.template at<float2>(B::L::halves) + slot * consumers;
        places[thread] = second ? float2{sums[0], sums[2]} : float2{sums[1], sums[3]};
        pk::ptx::named_barrier_sync<64>(pair_barrier + t);
        const float2 other = places[thread ^ 128];
        out = {{(second ? sums[1] : sums[0]) + other.x}, {(second ? sums[3] : sums[2]) + other.y}};
    } else {
        auto* places = block.template at<float4>(B::L::halves) + slot * consumers;
        places[thread] =
            second ? float4{sums[0], sums[1], sums[2], sums[3]} : float4{sums[4], sums[5], sums[6], sums[7]};
        pk::ptx::named_barrier_sync<64>(pair_barrier + t);
        const float4 other = places[thread ^ 128];
        const float mine[4] = {second ? sums[4] : sums[0], second ? sums[5] : sums[1],
                               second ? sums[6] : sums[2], second ? sums[7] : sums[3]};
        out = {{mine[0] + other.x, mine[1] + other.y}, {mine[2] + other.z, mine[3] + other.w}};
    }
    return out;
}

}  // namespace detail

// All tiles of a stream: emit(number of the tile, outputs) by each warp for what it has of them. No barrier
// of the block: what emit writes to shared memory is the warp's own until the next one. prepare() returns
// when the activations are there.
template <class B, class Prepare, class Emit>
PK_DEVICE void product(B& block, std::uint32_t x, const Tiles& stream, Prepare prepare, Emit emit) {
    constexpr std::uint32_t R = B::rows_room, batch = detail::batch_chunks;
    const std::uint32_t tiles = uniform(stream.tiles.count()), chunks = uniform(stream.chunks);
    const std::uint32_t warp = block.uniform_warp(), group = warp / 4;
    prepare();
    // Activations came by stores of peers, or of this block before its last barrier.
    pk::ptx::fence_proxy_async_shared();
    _Pragma("unroll 1") for (std::uint32_t first_tile = 0; first_tile < tiles; first_tile += band) {
        const std::uint32_t count = tiles - first_tile < band ? tiles - first_tile : band;
        const std::uint32_t most = B::L::page_chunks(count), stride = count * (2 * tile_bytes / 16);
        detail::HalfSums<R> sums = {};
        _Pragma("unroll 1") for (std::uint32_t begin = 0; begin < chunks; begin += most) {
            const std::uint32_t of_page = chunks - begin < most ? chunks - begin : most;
            // Equal in the warp, also for the compiler, so that descriptors are worked out once for all
            // lanes.
            const std::uint32_t weights = uniform(block.wait_page() + group * count * tile_bytes);
            const std::uint32_t activations = uniform(x + (begin + group) * (R * 64));
            std::uint64_t rows = pk::ptx::wgmma_pieces(weights, tape_piece(1, 0), tape_piece(0, 8));
            std::uint64_t pieces = pk::ptx::wgmma_pieces(activations, R * 16);
            std::uint32_t left = (of_page + 1 - group) / 2;  // chunks of the warpgroup
            const auto go_on = [&]<std::uint32_t Chunks>() {
                detail::multiply<R, Chunks>(sums, rows, stride, pieces);
                rows += Chunks * stride;
                pieces += Chunks * detail::chunk_pieces<R>;
                left -= Chunks;
            };
            _Pragma("unroll 1") while (left >= batch) go_on.template operator()<batch>();
            _Pragma("unroll 1") while (left > 0) go_on.template operator()<1>();
            pk::ptx::wgmma_fence();  // also where the warpgroup has no chunk of the page
            pk::ptx::wgmma_commit();
            // Not while those of the next page are computed, which took longer.
            pk::ptx::wgmma_wait<0>();
            block.release_page();
        }
        const std::uint32_t t = first_tile + warp % 4;
        if (t >= tiles) continue;
        detail::TileSums<R> tile_sums;
        PK_UNROLL
        for (std::uint32_t e = 0; e < sizeof(tile_sums) / 4; ++e) tile_sums[e] = sums[0][e] + sums[1][e];
        const auto outputs = detail::exchange_halves(block, tile_sums, first_tile / band % 2);
        if (R != 1 || group == 0) emit(stream.tiles.begin + t, outputs);
    }
}

#endif

}  // namespace mpk::cluster
