// The linear layers, each with what happens to its result. One function for all of them: the code of a layer
// has to fit into the cache of instructions.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "mpk/cluster/logits.hpp"
#include "mpk/cluster/product.hpp"
#include "pk/platform/atomic.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// What a warp has of a tile, `bytes` a row, to all members: `staged` has its rows one after the other,
// written by the warp's lanes; to(row) is where they go. 16 bytes a store.
template <std::uint32_t Bytes, class B, class To>
PK_DEVICE void send_rows(B& block, Exchange e, const unsigned char* staged, To to) {
    using Out = Outputs<B::rows_room>;
    constexpr std::uint32_t of_row = Bytes / 16, pieces = Out::warp_rows * of_row;
    static_assert(pieces <= 32 && 32 % pieces == 0);
    __syncwarp();
    const std::uint32_t piece = block.lane() % pieces;
    const std::uint32_t row = Out::row_of_warp(block.warp(), piece / of_row);
    if (row >= block.rows()) return;
    const uint4 value = reinterpret_cast<const uint4*>(staged)[piece];
    const std::uint32_t offset = to(row) + piece % of_row * 16;
    PK_UNROLL
    for (std::uint32_t i = 0; i < (members * pieces + 31) / 32; ++i) {
        const std::uint32_t rank = block.lane() / pieces + i * (32 / pieces);
        if (rank < members) block.send_to(rank, e, offset, value);
    }
}

// The warp's place for what it sends.
template <class B>
PK_DEVICE unsigned char* stage_of(const B& block) {
    return block.template at<unsigned char>(B::L::stage) + block.warp() * B::L::stage_bytes;
}

// Queries, keys and values of the group, f32 in L::qkv.
template <class B>
PK_DEVICE void emit_qkv(B& block, std::uint32_t t, const Outputs<B::rows_room>& out) {
    constexpr std::uint32_t R = B::rows_room;
    using Out = Outputs<R>;
    const auto* scales = block.template at<const float>(B::L::scales);
    unsigned char* staged = stage_of(block);
    __syncwarp();  // the lanes have read what it had before
    if (Out::is_there(block.warp(), block.lane())) {
        PK_UNROLL
        for (std::uint32_t k = 0; k < Out::rows; ++k) {
            const float scale = scales[Out::row(block.warp(), block.lane(), k)];
            float* to =
                reinterpret_cast<float*>(staged) + Out::warp_row(block.lane(), k) * tile + block.lane() / 4;
            to[0] = out.low[k] * scale;
            to[8] = out.high[k] * scale;
        }
    }
    send_rows<tile * 4>(block, Exchange::qkv, staged,
                        [&](std::uint32_t row) { return B::L::qkv + t * (R * tile * 4) + row * (tile * 4); });
}

// silu(gate) * up of a tile's eight columns of the FFN, bf16 in L::ffn, where they are a piece of a chunk.
template <class B>
PK_DEVICE void emit_ffn(B& block, std::uint32_t t, const Outputs<B::rows_room>& out) {
    constexpr std::uint32_t R = B::rows_room;
    using Out = Outputs<R>;
    const auto* scales = block.template at<const float>(B::L::scales);
    unsigned char* staged = stage_of(block);
    const std::uint32_t lane = block.lane(), g = lane / 4;
    float value[Out::rows];
    PK_UNROLL
    for (std::uint32_t k = 0; k < Out::rows; ++k) {
        const float scale = scales[Out::row(block.warp(), lane, k)];
        const float gate = out.low[k] * scale, up = out.high[k] * scale;
        value[k] = gate / (1.0f + __expf(-gate)) * up;
    }
    // Neighbouring columns are in lanes 4 apart. Of two rows one lane puts one, and the other the other.
    std::uint32_t pair = 0, k = 0;
    if constexpr (Out::rows == 2) {
        pair = pair_columns(value[0], value[1], lane);
        k = g & 1;
    } else {
        pair = bf16_pair(value[0], __shfl_down_sync(~0u, value[0], 4));
    }
    __syncwarp();
    if (Out::is_there(block.warp(), lane) && (Out::rows == 2 || g % 2 == 0)) {
        reinterpret_cast<std::uint32_t*>(staged)[Out::warp_row(lane, k) * 4 + g / 2] = pair;
    }
    send_rows<16>(block, Exchange::ffn, staged, [&](std::uint32_t row) {
        return B::L::ffn + t / 4 * (R * 64) + t % 4 * (R * 16) + row * 16;
    });
}

// Partial sums of a projection onto the residual stream, to global memory for the gather that follows.
template <class B>
PK_DEVICE void emit_sums(B& block, std::uint32_t* to, std::uint32_t tag, const Outputs<B::rows_room>& out) {
    using Out = Outputs<B::rows_room>;
    const std::uint32_t lane = block.lane();
    if (!Out::is_there(block.warp(), lane)) return;
    PK_UNROLL
    for (std::uint32_t k = 0; k < Out::rows; ++k) {
        const std::uint32_t row = Out::row(block.warp(), lane, k);
        if (row >= block.rows()) continue;
        std::uint32_t* place = to + std::uint64_t{row} * B::D::hidden + lane / 4;
        pk::store_relaxed(place, (__float_as_uint(out.low[k]) & ~1u) | tag);
        pk::store_relaxed(place + 8, (__float_as_uint(out.high[k]) & ~1u) | tag);
    }
}

}  // namespace detail

// One stream, empty where the block has no part in it. qkv, gate_up and logits read L::hidden, output
// L::attended, down L::ffn. Of qkv and gate_up all members have the result when it returns (down waits for
// gate_up's itself); output and down leave the cluster's part of the sums. prepare() brings the activations.
template <class B, class Prepare>
PK_DEVICE void stream(B& block, Stream which, std::uint32_t layer, bool has_part, Prepare prepare) {
    using D = typename B::D;
    using L = typename B::L;
    using S = typename B::S;
    constexpr std::uint32_t hidden = L::hidden, attended = L::attended, ffn = L::ffn;
    const bool qkv = which == Stream::qkv, gate_up = which == Stream::gate_up;
    const bool output = which == Stream::output, logits = which == Stream::logits;
    const bool down = which == Stream::down;
    const std::uint32_t rows = block.rows();
    if (qkv && has_part) {
        block.expect(Exchange::qkv, rows * S::qkv_rows * 4);
    } else if (gate_up) {
        block.expect(Exchange::ffn, rows * block.tiles(Stream::down, layer).chunks * chunk * 2);
    }
    const std::uint32_t turn = block.turn(layer), tag = turn >> 1 & 1;
    std::uint32_t* sums_of_cluster = (output ? block.setup.output_sums : block.setup.down_sums) +
                                     detail::sums_offset<D>(turn, block.setup.clusters, block.cluster(), 0);
    const Tiles tiles = has_part ? block.tiles(which, layer) : Tiles{};
    const std::uint32_t x = block.address(output ? attended : down ? ffn : hidden);
    detail::Candidates<B> best;
    const auto begin = [&] {
        prepare();
        if (!has_part) return;
        block.begin(layer, gate_up  ? LayerOp::gate_up
                           : output ? LayerOp::output
                           : down   ? LayerOp::down
                                    : LayerOp::qkv);  // after the last layer: the logits
        if (down) block.wait(Exchange::ffn, block.op);
    };
    product(block, x, tiles, begin, [&](std::uint32_t t, const Outputs<B::rows_room>& out) {
        if (qkv) {
            detail::emit_qkv(block, t, out);
        } else if (gate_up) {
            detail::emit_ffn(block, t, out);
        } else if (logits) {
            detail::emit_logits(block, t * tile, out, best);
        } else {
            detail::emit_sums(block, sums_of_cluster + t * tile, tag, out);
        }
    });
    if (qkv && has_part) block.wait(Exchange::qkv, block.op + 1);
    if (logits && has_part) detail::put_best(block, best);
}

#endif

}  // namespace mpk::cluster
