// Who does what: how a decoder's work is divided over clusters of blocks, and how much of it each block
// streams. The first `groups` clusters own one KV head each, with its part of the QKV and output projections;
// the FFN's columns and the logits are shared by all alike. So blocks of the other clusters stream less: with
// equal sums instead, everyone would wait in every layer for those that have more of its FFN, as a ring holds
// less than a layer. Host and device agree by using the same functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pk/platform/platform.hpp"

namespace mpk::cluster {

inline constexpr std::uint32_t members = 8;         // blocks of a cluster
inline constexpr std::uint32_t consumer_warps = 8;  // of a block
inline constexpr std::uint32_t tile = 16;           // rows of a weight that one tensor core tile takes
inline constexpr std::uint32_t chunk = 32;          // columns of a tile: 64 bytes of a row
inline constexpr std::uint32_t most_clusters = 16;  // that the sums over clusters are written for
inline constexpr std::uint32_t tile_bytes = tile * chunk * 2;
inline constexpr std::uint32_t band = 4;  // tiles that are worked on together: 64 rows

// What a block streams, in this order in every layer; the logits come once, after the layers.
enum class Stream : std::uint32_t { qkv, output, gate_up, down, logits };
inline constexpr std::uint32_t layer_streams = 4;

// Part `index` of `count` things divided into `parts`: parts differ by one at most.
struct Part {
    std::uint32_t begin, end;
    PK_HOST_DEVICE std::uint32_t count() const { return end - begin; }
};
PK_HOST_DEVICE Part part_of(std::uint32_t count, std::uint32_t parts, std::uint32_t index) {
    return {count * index / parts, count * (index + 1) / parts};
}

// Activations that the decode kernels multiply are bf16 [chunk of 32 columns][piece][row][8 columns], a piece
// being what 8 steps of a tensor core product take: of column 8 i + 2 p + e, the word i of piece p. Offset in
// bytes from the chunk's first, `rows` being those there is room for.
PK_HOST_DEVICE constexpr std::uint32_t piece_offset(std::uint32_t rows, std::uint32_t piece,
                                                    std::uint32_t row) {
    return (piece * rows + row) * 16;
}
PK_HOST_DEVICE constexpr std::uint32_t pair_offset(std::uint32_t rows, std::uint32_t column,
                                                   std::uint32_t row) {
    return column / chunk * (rows * 64) + piece_offset(rows, column % 8 / 2, row) + column % chunk / 8 * 4;
}
// A tile of a weight on the tape has, for its first and its last 8 rows, the same four pieces of each row.
// Offset in bytes of a piece from the tile's first; those of neighbouring rows lie 16 apart.
PK_HOST_DEVICE constexpr std::uint32_t tape_piece(std::uint32_t piece, std::uint32_t row) {
    return row / 8 * 512 + piece * 128 + row % 8 * 16;
}
// Row of gate and up of a tile of their weights whose result is column `index` of a piece: column of the FFN,
// from the first of the cluster's on. So a tile's result is a piece.
PK_HOST_DEVICE constexpr std::uint32_t ffn_column(std::uint32_t t, std::uint32_t index) {
    return t / 4 * chunk + index / 2 * 8 + t % 4 * 2 + index % 2;
}

// FFN columns of a cluster in a layer, in chunks.
struct FfnShare {
    std::uint16_t begin, count;
};

// The tiles of a stream that one block has, and the chunks of each row.
struct Tiles {
    Part tiles;
    std::uint32_t chunks;
    PK_HOST_DEVICE std::uint64_t bytes() const { return std::uint64_t{tiles.count()} * chunks * tile_bytes; }
};

// The same in 8 bytes, as a block keeps them of all its streams.
struct StoredTiles {
    std::uint16_t begin, end, chunks, unused;
    static constexpr std::uint32_t most = 65535;

    PK_HOST_DEVICE static StoredTiles of(const Tiles& t) {
        return {static_cast<std::uint16_t>(t.tiles.begin), static_cast<std::uint16_t>(t.tiles.end),
                static_cast<std::uint16_t>(t.chunks), 0};
    }
    PK_HOST_DEVICE operator Tiles() const { return {{begin, end}, chunks}; }
};

// D: the generated description of the decoder.
template <class D>
struct Shares {
    static constexpr std::uint32_t groups = D::kv_heads;
    static constexpr std::uint32_t group_heads = D::heads / D::kv_heads;
    static constexpr std::uint32_t qkv_rows =
        (group_heads + 2) * D::head;  // of a group: its queries, key, value
    static constexpr std::uint32_t output_cols = group_heads * D::head;
    static constexpr std::uint32_t hidden_chunks = D::hidden / chunk, ffn_chunks = D::ffn / chunk;
    static constexpr std::uint32_t slice = D::hidden / members;  // columns of the residual stream of a member
    static constexpr std::uint32_t pieces = (slice + 127) / 128;  // of it, of a warp each
    static_assert(D::hidden % (members * chunk) == 0 && D::ffn % chunk == 0 && D::vocab % tile == 0);
    static_assert(qkv_rows % tile == 0 && output_cols % chunk == 0);
    static_assert(D::vocab / tile <= StoredTiles::most && D::ffn / 8 <= StoredTiles::most);

    // All streams of a step, each layer's in their order, then the logits.
    static constexpr std::uint32_t streams = D::layers * layer_streams + 1;
    PK_HOST_DEVICE static std::uint32_t stream_index(Stream stream, std::uint32_t layer) {
        return layer * layer_streams + (stream == Stream::logits ? 0 : static_cast<std::uint32_t>(stream));
    }

    // Which rows of the weight (for gate_up: tiles of 8 gate rows and the 8 up rows of the
    // same columns, ffn_column).
    // `block` of all blocks; `ffn` of its cluster in this layer. Clusters without a group have no qkv,
    // output.
    PK_HOST_DEVICE static Tiles tiles(Stream stream, std::uint32_t block, std::uint32_t blocks,
                                      std::uint32_t layer, FfnShare ffn) {
        const std::uint32_t member = block % members;
        const bool attends = block / members < groups;
        switch (stream) {
            case Stream::qkv:
                return {attends ? part_of(qkv_rows / tile, members, member) : Part{}, hidden_chunks};
            case Stream::output:
                return {attends ? slice_tiles(member) : Part{}, output_cols / chunk};
            case Stream::gate_up:
                // The member that has one tile more changes from layer to layer.
                return {part_of(ffn.count * (chunk / 8u), members, (member + layer) % members),
                        hidden_chunks};
            case Stream::down:
                return {slice_tiles(member), ffn.count};
            default:
                return {part_of(D::vocab / tile, blocks, block), hidden_chunks};
        }
    }

    PK_HOST_DEVICE static Part slice_tiles(std::uint32_t member) {
        return {member * slice / tile, (member + 1) * slice / tile};
    }

    // Chunks of the FFN that a cluster has at least, in every layer: a tile of gate and up for each member.
    // So all wait for all, and no bytes of a layer's exchange come before a member is done with those of the
    // last.
    static constexpr std::uint32_t least_ffn_chunks = members * 8 / chunk;

    // How many of the clusters that fit are used; 0: too few.
    static constexpr std::uint32_t used_clusters(std::uint32_t fit) {
        const std::uint32_t most = std::min({fit, most_clusters, ffn_chunks / least_ffn_chunks});
        return most >= groups ? most : 0;
    }

    // shares[layer * clusters + c]: whole chunks; what a cluster lacks in one layer it gets in another.
    // clusters: at most ffn_chunks / least_ffn_chunks.
    static std::vector<FfnShare> ffn_shares(std::uint32_t clusters) {
        std::vector<double> due(clusters, 0.0);  // chunks that it should have had by now, less what it had
        std::vector<FfnShare> shares;
        for (std::uint32_t layer = 0; layer < D::layers; ++layer) {
            std::vector<std::uint32_t> count(clusters), order(clusters);
            std::uint32_t given = 0;
            for (std::uint32_t c = 0; c < clusters; ++c) {
                due[c] += double(ffn_chunks) / clusters;
                count[c] = due[c] > least_ffn_chunks ? static_cast<std::uint32_t>(due[c]) : least_ffn_chunks;
                given += count[c];
                order[c] = c;
            }
            std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
                return due[a] - count[a] > due[b] - count[b];
            });
            // Rounding leaves some over; where least_ffn_chunks or rounding errors of `due` gave too many,
            // the last give back.
            for (std::uint32_t i = 0; given < ffn_chunks; ++i, ++given) ++count[order[i % clusters]];
            for (std::uint32_t i = clusters - 1; given > ffn_chunks; i = i == 0 ? clusters - 1 : i - 1) {
                if (count[order[i]] > least_ffn_chunks) --count[order[i]], --given;
            }
            std::uint32_t begin = 0;
            for (std::uint32_t c = 0; c < clusters; ++c) {
                shares.push_back({static_cast<std::uint16_t>(begin), static_cast<std::uint16_t>(count[c])});
                due[c] -= count[c];
                begin += count[c];
            }
        }
        return shares;
    }

    // The most chunks that a cluster has in a layer, whatever used_clusters says: the size of a buffer. Equal
    // shares of as many clusters as groups, or what rounding gives to one of more clusters.
    static constexpr std::uint32_t most_ffn_chunks() {
        if (ffn_chunks % groups != 0) return ffn_chunks / groups + 2;
        return std::max(ffn_chunks / groups, ffn_chunks / (groups + 1) + 2);
    }
};

}  // namespace mpk::cluster
