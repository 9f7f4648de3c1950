// Products of streamed weights with activations in shared memory: out[row] = sum over columns of weight[out]
// * x[row]. Weights, from the page by way of registers, are the operand of 64 rows of the warpgroup's tensor
// core instructions; the activations, of 8 or 16 rows of the batch, the one in shared memory.
//
// A page holds chunks of 32 columns; of each chunk the tiles of a band, a tile being 16 rows x 32 columns.
// Warps w and w + 4 have tile w of the band. The first warpgroup takes the even chunks and the second the odd
// ones; when a band ends, the two warps of a tile give each other half of their sums. A row's result does not
// depend on the other rows. Lane 4 g + i has columns 8 i .. 8 i + 7 of rows g and g + 8 of a tile, as two
// operands of 16 steps of the sum, which lie in the page one after the other, 16 bytes a lane; activations
// lie in the order that this gives (activation_offset).
#pragma once

#include "mpk/cluster/block.hpp"
#include "pk/ptx/shared_load.hpp"
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

inline constexpr std::uint32_t batch_chunks = 4;  // of a warpgroup, in registers at a time

// The weights of a batch: of every other chunk of eight.
using Batch = std::uint32_t[batch_chunks][2][4];

// Loads the weights of the batches of a stream in the order of its pages.
template <class B>
class BatchLoader {
    static constexpr std::uint32_t both = 2 * batch_chunks;  // chunks of both warpgroups

public:
    PK_DEVICE BatchLoader(B& block, std::uint32_t group, std::uint32_t tiles, std::uint32_t chunks)
        : block_(block), group_(group), chunks_(chunks), tiles_(chunks == 0 ? 0 : tiles), left_(chunks) {}

    // Chunks that there are not are zero. After the last batch comes one of nothing: a batch that was
    // sometimes not loaded would take its registers all along. there: is_next_there() before.
    PK_DEVICE void load(Batch& batch, bool there) {
        const std::uint32_t tiles = tiles_ < band ? tiles_ : band, mine = block_.warp() % 4;
        if (tiles != 0 && page_batches_ == 0) {
            page_batches_ = tiles == 1 ? 4 : tiles == 2 ? 2 : 1;  // as Layout::page_chunks
            at_ = block_.wait_page(there) + (group_ * tiles + mine) * tile_bytes + block_.lane() * 16;
        }
        const std::uint32_t chunks = mine < tiles ? left_ : 0, nothing = block_.address(B::L::zeros);
        PK_UNROLL
        for (std::uint32_t c = 0; c < batch_chunks; ++c) {
            const std::uint32_t from = 2 * c + group_ < chunks ? at_ + c * (2 * tile_bytes) * tiles : nothing;
            PK_UNROLL
            for (std::uint32_t half = 0; half < 2; ++half) {
                const uint4 v = pk::ptx::load_shared(from + half * (tile_bytes / 2));
                batch[c][half][0] = v.x, batch[c][half][1] = v.y;
                batch[c][half][2] = v.z, batch[c][half][3] = v.w;
            }
        }
        if (tiles == 0) return;
        at_ += both * tile_bytes * tiles;
        const bool ends = left_ <= both;
        page_batches_ = ends ? 0 : page_batches_ - 1;
        tiles_ -= ends ? tiles : 0;
        left_ = ends ? chunks_ : left_ - both;
        read_page_ = page_batches_ == 0;
    }

    // When what was loaded has come: a release right after the loads would wait for them.
    PK_DEVICE void release() {
        if (read_page_) block_.release_page();
        read_page_ = false;
    }

    // Whether the next batch can be loaded without a wait.
    PK_DEVICE bool is_next_there() const {
        return tiles_ == 0 || page_batches_ != 0 || block_.is_page_there();
    }

private:
    B& block_;
    std::uint32_t group_, chunks_;
    std::uint32_t tiles_, left_;  // tiles that are left, and of the band, chunks
    std::uint32_t at_ = 0, page_batches_ = 0;
    bool read_page_ = false;
};

template <std::uint32_t R>
using TileSums = float[R == 16 ? 8 : 4];
// Of the first and of the second half of all chunks, as a product waits for the last one with the same sums.
template <std::uint32_t R>
using HalfSums = float[2][R == 16 ? 8 : 4];

// Starts the products of a batch with the activations from x on. Of chunks from `left` on, which there are
// not, the weights are zero, and the first one's activations will do.
template <std::uint32_t R>
PK_DEVICE void multiply(HalfSums<R>& sums, const Batch& batch, std::uint32_t x, std::uint32_t left) {
    pk::ptx::wgmma_fence();
    PK_UNROLL
    for (std::uint32_t c = 0; c < batch_chunks; ++c) {
        const std::uint64_t pieces = pk::ptx::wgmma_pieces(c < left ? x + c * (2 * R * 64) : x, R * 16);
        PK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            pk::ptx::wgmma_m64k16(sums[half], batch[c][half], pieces + half * (2 * R));
        }
    }
    pk::ptx::wgmma_commit();
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
// when the activations are there; the first weights are on their way to registers meanwhile.
template <class B, class Prepare, class Emit>
PK_DEVICE void product(B& block, std::uint32_t x, const Tiles& stream, Prepare prepare, Emit emit) {
    constexpr std::uint32_t R = B::rows_room, both = 2 * detail::batch_chunks;
    const std::uint32_t tiles = uniform(stream.tiles.count()), chunks = uniform(stream.chunks);
    const std::uint32_t warp = block.uniform_warp(), group = warp / 4;
    detail::BatchLoader<B> loader(block, group, tiles, chunks);
    // Both keep their registers: copied from one to the other, the products would wait for each other.
    detail::Batch even, odd;
    // Nothing waits for weights before the activations are there.
    const bool early = B::D::pipelining && loader.is_next_there();
    if (early) loader.load(even, true);
    prepare();
    if (!early) loader.load(even, loader.is_next_there());
    loader.release();
    // Activations came by stores of peers, or of this block before its last barrier.
    pk::ptx::fence_proxy_async_shared();
    const std::uint32_t own = (chunks + 1 - group) / 2;  // chunks of the warpgroup
    // The batch that begins with the warpgroup's chunk `from`, which may lie past the last.
    const auto multiply = [&](detail::HalfSums<R>& sums, const detail::Batch& batch, std::uint32_t from) {
        const bool is_there = from < own;
        detail::multiply<R>(sums, batch, x + (is_there ? 2 * from + group : 0) * (R * 64),
                            is_there ? own - from : 0);
    };
    const auto step = [&](detail::HalfSums<R>& sums, const detail::Batch& batch, std::uint32_t from,
                          detail::Batch& next) {
        const bool there = loader.is_next_there();  // is known when the products have been issued
        multiply(sums, batch, from);
        loader.load(next, there);
        pk::ptx::wgmma_wait<0>();
        loader.release();
    };
    detail::HalfSums<R> sums = {};
    std::uint32_t first_tile = 0, c = 0;  // of the band; the batch's first chunk
    const auto go_on = [&] {
        c += both;
        if (c < chunks) return;
        c = 0;
        const std::uint32_t t = first_tile + warp % 4;
        if (t < tiles) {
            detail::TileSums<R> tile_sums;
            PK_UNROLL
            for (std::uint32_t e = 0; e < sizeof(tile_sums) / 4; ++e) tile_sums[e] = sums[0][e] + sums[1][e];
            const auto outputs = detail::exchange_halves(block, tile_sums, first_tile / band % 2);
            if (R != 1 || group == 0) emit(stream.tiles.begin + t, outputs);
        }
        first_tile += band;
        PK_UNROLL
        for (std::uint32_t e = 0; e < sizeof(sums[0]) / 4; ++e) sums[0][e] = sums[1][e] = 0;
    };
    while (first_tile < tiles) {
        step(sums, even, c / 2, odd);
        go_on();
        if (first_tile >= tiles) break;
        step(sums, odd, c / 2, even);
        go_on();
    }
}

#endif

}  // namespace mpk::cluster
