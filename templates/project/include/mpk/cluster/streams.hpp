// The linear layers of a decoder layer, each with what happens to its result. One function for all of them:
// the code of a layer has to fit into the cache of instructions.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "mpk/cluster/product.hpp"
#include "pk/platform/atomic.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// each(i, send) for all i < count: send(offset, value) stores in all members. Of a batch of one it is quicker
// to have eight threads send the same value.
template <class B, class Each>
PK_DEVICE void send_each(B& block, Exchange e, std::uint32_t count, Each each) {
    if constexpr (B::rows_room == 1) {
        for (std::uint32_t i = block.thread(); i < count * members; i += consumers) {
            each(i / members, [&](auto at, auto value) {
                // Eight lanes have read the same sums. The one that sends to this block may complete its
                // barrier, after which other warps write there: by then all lanes must have read.
                __syncwarp();
                block.send(e, at, value);
            });
        }
    } else {
        for (std::uint32_t i = block.thread(); i < count; i += consumers) {
            each(i, [&](auto at, auto value) { block.send_all(e, at, value); });
        }
    }
}

// Queries, keys and values [first, first + count) of the group, f32 in L::qkv.
template <class B, class Sums>
PK_DEVICE void emit_qkv(B& block, std::uint32_t first, std::uint32_t count, const Sums& sums) {
    using L = typename B::L;
    const auto* scales = block.template at<const float>(L::scales);
    send_each(block, Exchange::qkv, count * block.rows(), [&](std::uint32_t i, auto send) {
        const std::uint32_t row = i / count, o = i % count;
        send(L::qkv + (row * B::S::qkv_rows + first + o) * 4, __float_as_uint(sums.at(row, o) * scales[row]));
    });
}

// silu(gate) * up of columns of the FFN from first / 2, bf16 in L::ffn.
template <class B, class Sums>
PK_DEVICE void emit_ffn(B& block, std::uint32_t first, std::uint32_t count, const Sums& sums) {
    using L = typename B::L;
    const auto* scales = block.template at<const float>(L::scales);
    // Two neighbouring columns a thread: four such pairs in a tile.
    send_each(block, Exchange::ffn, count / 4 * block.rows(), [&](std::uint32_t i, auto send) {
        const std::uint32_t row = i / (count / 4), pair = i % (count / 4);
        const std::uint32_t gate = pair / 4 * tile + pair % 4 * 2;
        float value[2];
        PK_UNROLL
        for (std::uint32_t e = 0; e < 2; ++e) {
            const float g = sums.at(row, gate + e) * scales[row];
            const float up = sums.at(row, gate + tile / 2 + e) * scales[row];
            value[e] = g / (1.0f + __expf(-g)) * up;
        }
        const std::uint32_t column = first / 2 + pair * 2;
        send(L::ffn + column / chunk * (B::rows_room * 64) + row * 64 + column % chunk * 2,
             bf16_pair(value[0], value[1]));
    });
}

// Partial sums of a projection onto the residual stream, to global memory for the gather that follows.
template <class B, class Sums>
PK_DEVICE void emit_sums(B& block, std::uint32_t* to, std::uint32_t tag, std::uint32_t count,
                         const Sums& sums) {
    for (std::uint32_t i = block.thread(); i < count * block.rows(); i += consumers) {
        const std::uint32_t row = i / count, o = i % count;
        const std::uint32_t word = (__float_as_uint(sums.at(row, o)) & ~1u) | tag;
        pk::store_relaxed(to + std::uint64_t{row} * B::D::hidden + o, word);
    }
}

}  // namespace detail

// One stream of a layer: qkv and gate_up read L::hidden, and all members have the result when it returns;
// output and down read L::attended and L::ffn and leave the cluster's part of the sums.
template <class B>
PK_DEVICE void stream(B& block, Stream which, std::uint32_t layer) {
    using D = typename B::D;
    using L = typename B::L;
    using S = typename B::S;
    constexpr std::uint32_t hidden = L::hidden, attended = L::attended, ffn = L::ffn;
    const bool qkv = which == Stream::qkv, gate_up = which == Stream::gate_up;
    const bool output = which == Stream::output;
    const LayerOp op = qkv       ? LayerOp::qkv
                       : gate_up ? LayerOp::gate_up
                       : output  ? LayerOp::output
                                 : LayerOp::down;
    block.begin(layer, op);
    const std::uint32_t rows = block.rows(), turn = block.turns, tag = turn >> 1 & 1;
    const Exchange e = qkv ? Exchange::qkv : Exchange::ffn;
    if (qkv) {
        block.expect(e, rows * S::qkv_rows * 4);
    } else if (gate_up) {
        block.expect(e, rows * block.tiles(Stream::down, layer).chunks * chunk * 2);
    }
    const Tiles tiles = block.tiles(which, layer);
    const std::uint32_t start = tiles.tiles.begin * tile;
    std::uint32_t* sums_of_cluster = (output ? block.setup.output_sums : block.setup.down_sums) +
                                     detail::sums_offset<D>(turn, block.setup.clusters, block.cluster(), 0) +
                                     start;
    const std::uint32_t x = block.address(output ? attended : which == Stream::down ? ffn : hidden);
    product(block, x, tiles, [&](std::uint32_t first, std::uint32_t count, const auto& sums) {
        if (qkv) {
            detail::emit_qkv(block, start + first, count, sums);
        } else if (gate_up) {
            detail::emit_ffn(block, start + first, count, sums);
        } else {
            detail::emit_sums(block, sums_of_cluster + first, tag, count, sums);
        }
    });
    if (qkv || gate_up) block.wait(e, block.op + 1);
}

#endif

}  // namespace mpk::cluster
