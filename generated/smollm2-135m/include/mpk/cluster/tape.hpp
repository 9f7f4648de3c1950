// Weights from rows, as the packed file has them, to the tape: what every block streams, in that order.
#pragma once

#include "mpk/cluster/setup.hpp"
#include "mpk/cluster/shares.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::cluster {

// The matrices of a layer (and the logits' one), rows of padded(cols) elements.
struct LayerMatrices {
    const pk::tile::bf16 *qkv, *output, *gate, *up, *down;
};

// Bytes of a block's tape up to a stream.
template <class D>
PK_HOST_DEVICE std::uint64_t tape_bytes(std::uint32_t streams, std::uint32_t block, std::uint32_t blocks,
                                        const FfnShare* shares) {
    std::uint64_t bytes = 0;
    const std::uint32_t clusters = blocks / members;
    for (std::uint32_t s = 0; s < streams; ++s) {
        const std::uint32_t layer = s / layer_streams;
        const Stream which = layer < D::layers ? static_cast<Stream>(s % layer_streams) : Stream::logits;
        const FfnShare ffn = layer < D::layers ? shares[layer * clusters + block / members] : FfnShare{};
        bytes += Shares<D>::tiles(which, block, blocks, layer, ffn).bytes();
    }
    return bytes;
}

#if PK_CUDA

// One thread block for each (block of the worker, stream): grid (blocks, streams).
template <class D>
__global__ void write_tape(std::uint8_t* tape, const std::uint64_t* tape_begin, const FfnShare* shares,
                           const LayerMatrices* layers, const pk::tile::bf16* logits) {
    using S = Shares<D>;
    const std::uint32_t block = blockIdx.x, blocks = gridDim.x, layer = blockIdx.y / layer_streams;
    const std::uint32_t cluster = block / members;
    const Stream which = layer < D::layers ? static_cast<Stream>(blockIdx.y % layer_streams) : Stream::logits;
    const FfnShare ffn = layer < D::layers ? shares[layer * (blocks / members) + cluster] : FfnShare{};
    const Tiles stream = S::tiles(which, block, blocks, layer, ffn);
    auto* to =
        reinterpret_cast<uint4*>(tape + tape_begin[block] + tape_bytes<D>(blockIdx.y, block, blocks, shares));

    // Eight columns from `column` of a row of the block's tile `t`.
    const auto source = [&](std::uint32_t t, std::uint32_t row, std::uint32_t column) {
        const std::uint32_t local = t * tile + row;
        switch (which) {
            case Stream::qkv: {
                constexpr std::uint32_t queries = S::output_cols;
                std::uint32_t from = cluster * queries + local;
                if (local >= queries + D::head) {
                    from = (D::heads + D::kv_heads + cluster) * D::head + local - queries - D::head;
                } else if (local >= queries) {
                    from = (D::heads + cluster) * D::head + local - queries;
                }
                return layers[layer].qkv + std::uint64_t{from} * D::hidden + column;
            }
            case Stream::output:
                return layers[layer].output + std::uint64_t{local} * (D::heads * D::head) +
                       cluster * S::output_cols + column;
            case Stream::gate_up: {
                const pk::tile::bf16* matrix = row < tile / 2 ? layers[layer].gate : layers[layer].up;
                const std::uint32_t from = ffn.begin * chunk + ffn_column(t, row % (tile / 2));
                return matrix + std::uint64_t{from} * D::hidden + column;
            }
            case Stream::down:
                return layers[layer].down + std::uint64_t{local} * D::ffn + ffn.begin * chunk + column;
            default:
                return logits + std::uint64_t{local} * D::hidden + column;
        }
    };

    // Bands; in each, chunk by chunk, the tiles; of a tile, pieces of its rows (tape_piece).
    constexpr std::uint32_t pieces = tile_bytes / 16;
    for (std::uint32_t first = stream.tiles.begin; first < stream.tiles.end; first += band) {
        const std::uint32_t count = stream.tiles.end - first < band ? stream.tiles.end - first : band;
        const std::uint32_t total = stream.chunks * count * pieces;
        for (std::uint32_t i = threadIdx.x; i < total; i += blockDim.x) {
            const std::uint32_t in_tile = i % pieces, t = i / pieces % count, c = i / (pieces * count);
            const std::uint32_t row = in_tile / 32 * 8 + in_tile % 8, piece = in_tile / 8 % 4;
            const auto* pairs =
                reinterpret_cast<const std::uint32_t*>(source(first + t, row, c * chunk)) + piece;
            to[i] = {pairs[0], pairs[4], pairs[8], pairs[12]};
        }
        to += total;
    }
}

#endif

}  // namespace mpk::cluster
