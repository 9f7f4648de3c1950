// The linear layers of a decoder layer, each with what happens to its result.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "mpk/cluster/product.hpp"

namespace mpk::cluster {

#if PK_SM90

// The group's queries, key and value of every row to all members, f32 in L::qkv. Meanwhile the norm weights
// of the heads come to shared memory.
template <class B>
PK_DEVICE void stream_qkv(B& block, std::uint32_t layer) {
    using D = typename B::D;
    using L = typename B::L;
    constexpr std::uint32_t width = B::S::qkv_rows, pieces = D::head / 8;
    block.begin(layer, LayerOp::qkv);
    const std::uint32_t rows = block.rows(), thread = block.thread();
    block.expect(Exchange::qkv, rows * width * 4);
    if constexpr (D::has_q_norm || D::has_k_norm) {
        if (thread < 2 * pieces) {
            const LayerWeights& weights = block.weights(layer);
            const auto* norm =
                reinterpret_cast<const uint4*>(thread < pieces ? weights.q_norm : weights.k_norm);
            if (norm != nullptr) block.template at<uint4>(L::head_norms)[thread] = norm[thread % pieces];
        }
    }
    const Tiles stream = block.tiles(Stream::qkv, layer);
    const std::uint32_t first_row = stream.tiles.begin * tile;
    product(block, block.address(L::hidden), stream,
            [&](std::uint32_t first, std::uint32_t count, const auto& sums) {
                const auto* scales = block.template at<const float>(L::scales);
                const auto each = [&](std::uint32_t j, auto send) {
                    const std::uint32_t row = j / count, o = j % count;
                    send(L::qkv + (row * width + first_row + first + o) * 4,
                         __float_as_uint(sums.at(row, o) * scales[row]));
                };
                if constexpr (B::rows_room == 1) {
                    for (std::uint32_t i = thread; i < count * members; i += consumers) {
                        each(i / members, [&](auto at, auto value) { block.send(Exchange::qkv, at, value); });
                    }
                } else {
                    for (std::uint32_t i = thread; i < count * rows; i += consumers) {
                        each(i, [&](auto at, auto value) { block.send_all(Exchange::qkv, at, value); });
                    }
                }
            });
    block.wait(Exchange::qkv, block.op + 1);
}

// A projection onto the residual stream whose columns are divided among clusters: partial sums to global
// memory for the gather that follows.
template <class B>
PK_DEVICE void stream_sums(B& block, Stream which, std::uint32_t layer, std::uint32_t turn) {
    using D = typename B::D;
    using L = typename B::L;
    const bool output = which == Stream::output;
    constexpr std::uint32_t attended = L::attended, ffn = L::ffn;
    block.begin(layer, output ? LayerOp::output : LayerOp::down);
    const std::uint32_t rows = block.rows(), tag = turn >> 1 & 1;
    const Tiles stream = block.tiles(which, layer);
    std::uint32_t* to = (output ? block.setup.output_sums : block.setup.down_sums) +
                        detail::sums_offset<D>(turn, block.setup.clusters, block.cluster(), 0) +
                        stream.tiles.begin * tile;
    product(block, block.address(output ? attended : ffn), stream,
            [&](std::uint32_t first, std::uint32_t count, const auto& sums) {
                for (std::uint32_t i = block.thread(); i < count * rows; i += consumers) {
                    const std::uint32_t row = i / count, o = i % count;
                    const std::uint32_t word = (__float_as_uint(sums.at(row, o)) & ~1u) | tag;
                    asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
                                 :
                                 : "l"(to + std::uint64_t{row} * D::hidden + first + o), "r"(word)
                                 : "memory");
                }
            });
}

// silu(gate) * up of the cluster's columns to all members, bf16 in L::ffn.
template <class B>
PK_DEVICE void stream_gate_up(B& block, std::uint32_t layer) {
    using L = typename B::L;
    constexpr std::uint32_t R = B::rows_room;
    block.begin(layer, LayerOp::gate_up);
    const std::uint32_t rows = block.rows();
    block.expect(Exchange::ffn, rows * block.tiles(Stream::down, layer).chunks * chunk * 2);
    const Tiles stream = block.tiles(Stream::gate_up, layer);
    const std::uint32_t first_column = stream.tiles.begin * (tile / 2);
    product(block, block.address(L::hidden), stream,
            [&](std::uint32_t first, std::uint32_t count, const auto& sums) {
                const auto* scales = block.template at<const float>(L::scales);
                // Two neighbouring columns a thread: four such pairs in a tile.
                const auto each = [&](std::uint32_t j, auto send) {
                    const std::uint32_t row = j / (count / 4), pair = j % (count / 4);
                    const std::uint32_t gate = pair / 4 * tile + pair % 4 * 2;
                    float value[2];
                    PK_UNROLL
                    for (std::uint32_t e = 0; e < 2; ++e) {
                        const float g = sums.at(row, gate + e) * scales[row];
                        const float up = sums.at(row, gate + tile / 2 + e) * scales[row];
                        value[e] = g / (1.0f + __expf(-g)) * up;
                    }
                    const std::uint32_t column = first_column + first / 2 + pair * 2;
                    send(L::ffn + column / chunk * (R * 64) + row * 64 + column % chunk * 2,
                         detail::bf16_pair(value[0], value[1]));
                };
                if constexpr (R == 1) {
                    for (std::uint32_t i = block.thread(); i < count / 4 * members; i += consumers) {
                        each(i / members, [&](auto at, auto value) { block.send(Exchange::ffn, at, value); });
                    }
                } else {
                    for (std::uint32_t i = block.thread(); i < count / 4 * rows; i += consumers) {
                        each(i, [&](auto at, auto value) { block.send_all(Exchange::ffn, at, value); });
                    }
                }
            });
    block.wait(Exchange::ffn, block.op + 1);
}

#endif

}  // namespace mpk::cluster
