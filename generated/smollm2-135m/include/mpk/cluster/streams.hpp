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

// each(row, output) for `count` outputs of all rows, Width at most: a thread has one of a row, and of some
// rows.
template <std::uint32_t Width, class B, class Each>
PK_DEVICE void for_each_output(const B& block, std::uint32_t count, Each each) {
    static_assert(consumers % Width == 0);
    const std::uint32_t o = block.thread() % Width;
    if (o >= count) return;
    for (std::uint32_t row = block.thread() / Width; row < block.rows(); row += consumers / Width)
        each(row, o);
}

// each(row, output, send): send(offset, value) stores in all members. Of a batch of one it is quicker to have
// eight threads send the same value.
template <std::uint32_t Width, class B, class Each>
PK_DEVICE void send_each(B& block, Exchange e, std::uint32_t count, Each each) {
    if constexpr (B::rows_room == 1) {
        for (std::uint32_t i = block.thread(); i < count * members; i += consumers) {
            each(0u, i / members, [&](auto at, auto value) {
                // Eight lanes have read the same sums. The one that sends to this block may complete its
                // barrier, after which other warps write there: by then all lanes must have read.
                __syncwarp();
                block.send(e, at, value);
            });
        }
    } else {
        for_each_output<Width>(block, count, [&](std::uint32_t row, std::uint32_t o) {
            each(row, o, [&](auto at, auto value) { block.send_all(e, at, value); });
        });
    }
}

// Queries, keys and values [first, first + count) of the group, f32 in L::qkv.
template <class B, class Sums>
PK_DEVICE void emit_qkv(B& block, std::uint32_t first, std::uint32_t count, const Sums& sums) {
    using L = typename B::L;
    const auto* scales = block.template at<const float>(L::scales);
    send_each<band * tile>(block, Exchange::qkv, count, [&](std::uint32_t row, std::uint32_t o, auto send) {
        send(L::qkv + (row * B::S::qkv_rows + first + o) * 4, __float_as_uint(sums.at(row, o) * scales[row]));
    });
}

// silu(gate) * up of columns of the FFN from first / 2, bf16 in L::ffn.
template <class B, class Sums>
PK_DEVICE void emit_ffn(B& block, std::uint32_t first, std::uint32_t count, const Sums& sums) {
    using L = typename B::L;
    const auto* scales = block.template at<const float>(L::scales);
    // Two neighbouring columns a thread: four such pairs in a tile.
    send_each<band * tile / 4>(
        block, Exchange::ffn, count / 4, [&](std::uint32_t row, std::uint32_t pair, auto send) {
            const std::uint32_t gate = pair / 4 * tile + pair % 4 * 2;
            float gates[2], ups[2], value[2];
            if constexpr (B::rows_room == 1) {
                // Of the eight lanes with this pair each adds up one of the four: whole warps are here.
                const std::uint32_t mine = block.lane() % 4, leader = block.lane() & ~3u;
                const float sum = sums.at(0, gate + mine % 2 + mine / 2 * (tile / 2)) * scales[0];
                PK_UNROLL
                for (std::uint32_t e = 0; e < 2; ++e) {
                    gates[e] = __shfl_sync(~0u, sum, leader + e);
                    ups[e] = __shfl_sync(~0u, sum, leader + 2 + e);
                }
            } else {
                PK_UNROLL
                for (std::uint32_t e = 0; e < 2; ++e) {
                    gates[e] = sums.at(row, gate + e) * scales[row];
                    ups[e] = sums.at(row, gate + tile / 2 + e) * scales[row];
                }
            }
            PK_UNROLL
            for (std::uint32_t e = 0; e < 2; ++e) value[e] = gates[e] / (1.0f + __expf(-gates[e])) * ups[e];
            const std::uint32_t column = first / 2 + pair * 2;
            send(L::ffn + column / chunk * (B::rows_room * 64) + row * 64 + column % chunk * 2,
                 bf16_pair(value[0], value[1]));
        });
}

// Partial sums of a projection onto the residual stream, to global memory for the gather that follows.
template <class B, class Sums>
PK_DEVICE void emit_sums(B& block, std::uint32_t* to, std::uint32_t tag, std::uint32_t count,
                         const Sums& sums) {
    constexpr std::uint32_t width = B::L::sum_slots * band * tile;
    for_each_output<width>(block, count, [&](std::uint32_t row, std::uint32_t o) {
        const std::uint32_t word = (__float_as_uint(sums.at(row, o)) & ~1u) | tag;
        pk::store_relaxed(to + std::uint64_t{row} * B::D::hidden + o, word);
    });
}

}  // namespace detail

// One stream. qkv, gate_up and logits read L::hidden, output L::attended, down L::ffn. Of qkv and gate_up all
// members have the result when it returns; output and down leave the cluster's part of the sums.
template <class B>
PK_DEVICE void stream(B& block, Stream which, std::uint32_t layer) {
    using D = typename B::D;
    using L = typename B::L;
    using S = typename B::S;
    constexpr std::uint32_t hidden = L::hidden, attended = L::attended, ffn = L::ffn;
    const bool qkv = which == Stream::qkv, gate_up = which == Stream::gate_up;
    const bool output = which == Stream::output, logits = which == Stream::logits;
    const LayerOp op = gate_up                 ? LayerOp::gate_up
                       : output                ? LayerOp::output
                       : which == Stream::down ? LayerOp::down
                                               : LayerOp::qkv;  // after the last layer: the logits
    block.begin(layer, op);
    const std::uint32_t rows = block.rows(), turn = block.turn(layer), tag = turn >> 1 & 1;
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
    detail::Candidate best;
    product(block, x, tiles, [&](std::uint32_t first, std::uint32_t count, const auto& sums) {
        if (qkv) {
            detail::emit_qkv(block, start + first, count, sums);
        } else if (gate_up) {
            detail::emit_ffn(block, start + first, count, sums);
        } else if (logits) {
            detail::emit_logits(block, start + first, count, sums, best);
        } else {
            detail::emit_sums(block, sums_of_cluster + first, tag, count, sums);
        }
    });
    if (qkv || gate_up) block.wait(e, block.op + 1);
    if (logits) detail::put_best(block, best);
}

#endif

}  // namespace mpk::cluster
