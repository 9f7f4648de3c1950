// What the prefill kernel reads at a time: a pass is up to pass_rows tokens of the prompts of a call, those
// of one sequence after the other. How products are cut, and where a row's activations lie.
//
// Everything that decides in which order a row's numbers are added depends on the model alone, so a row's
// result does not depend on the other rows of its pass.
#pragma once

#include "mpk/cluster/layout.hpp"
#include "mpk/cluster/shares.hpp"

namespace mpk::cluster::prefill {

inline constexpr std::uint32_t pass_rows = 512;
inline constexpr std::uint32_t octet = 8;           // tokens that one tensor core fragment has
inline constexpr std::uint32_t part_chunks = 4;     // parts of a product's columns are multiples of this
inline constexpr std::uint32_t fold_columns = 128;  // of the residual stream that a warp works on

// Tokens position .. position + count - 1 of a sequence are the rows row .. row + count - 1 of the pass.
struct Segment {
    std::uint32_t sequence, position, row, count;
};

struct Pass {
    std::uint32_t rows, count;  // of segments
    Segment segments[most_rows];

    PK_HOST_DEVICE std::uint32_t octets() const { return (rows + octet - 1) / octet; }

    // The segment of a row; of rows past the end the last one.
    PK_HOST_DEVICE const Segment& of(std::uint32_t row) const {
        std::uint32_t s = 0;
        while (s + 1 < count && row >= segments[s + 1].row) ++s;
        return segments[s];
    }
};

// The rows from `first` on of all rows that are read ahead, of which sequence s has length(s).
template <class Length>
PK_HOST_DEVICE void fill_pass(Pass& pass, std::uint32_t sequences, std::uint32_t first, Length length) {
    pass.rows = pass.count = 0;
    for (std::uint32_t s = 0; s < sequences && pass.rows < pass_rows; ++s) {
        const std::uint32_t all = length(s);
        if (first >= all) {
            first -= all;
            continue;
        }
        const std::uint32_t left = all - first, room = pass_rows - pass.rows;
        const std::uint32_t count = left < room ? left : room;
        pass.segments[pass.count++] = {s, first, pass.rows, count};
        pass.rows += count;
        first = 0;
    }
}

// A product: 16-row tiles of its weight, chunks of 32 columns, and the parts in which the columns are summed
// up on their own, so that there is work for all SMs. The parts' sums are added in their order.
struct Product {
    Stream which;
    std::uint32_t tiles, chunks, parts;

    PK_HOST_DEVICE Part part(std::uint32_t index) const {
        const Part units = part_of((chunks + part_chunks - 1) / part_chunks, parts, index);
        return {units.begin * part_chunks, units.end * part_chunks};
    }
};

template <class D>
PK_HOST_DEVICE constexpr Product product_of(Stream which) {
    using S = Shares<D>;
    constexpr std::uint32_t busy = 128;  // SMs that should have work, in tiles of 64 rows
    const auto parts = [](std::uint32_t tiles, std::uint32_t chunks) {
        std::uint32_t most = chunks / (2 * part_chunks);
        most = most < 1 ? 1 : most > 8 ? 8 : most;
        const std::uint32_t wanted = busy / ((tiles + band - 1) / band);
        return wanted < 1 ? 1 : wanted < most ? wanted : most;
    };
    constexpr std::uint32_t qkv = S::groups * S::qkv_rows / tile, stream = D::hidden / tile;
    constexpr std::uint32_t attended = S::groups * S::output_cols / chunk;
    switch (which) {
        case Stream::qkv:
            return {which, qkv, S::hidden_chunks, parts(qkv, S::hidden_chunks)};
        case Stream::output:
            return {which, stream, attended, parts(stream, attended)};
        case Stream::gate_up:
            // Its result is not linear in the sums.
            return {which, D::ffn / (tile / 2), S::hidden_chunks, 1};
        default:
            return {which, stream, S::ffn_chunks, parts(stream, S::ffn_chunks)};
    }
}

// Activations, bf16 [chunk of 32 columns][pass_rows][32], as the tensor cores read them: in a row of 64 bytes
// the pair of columns 8 i + 2 m, 8 i + 2 m + 1 is word i of piece m, as lane i of a warp has columns 8 i ..
// 8 i + 7 of a weight; and the pieces are swapped by the row, against bank conflicts. Offset in bytes.
PK_HOST_DEVICE constexpr std::uint32_t activation_offset(std::uint32_t chunk_index, std::uint32_t row,
                                                         std::uint32_t piece) {
    return (chunk_index * pass_rows + row) * 64 + (piece ^ (row / 2 & 3)) * 16;
}

// Products' sums and the residual stream, f32 as the tensor cores give them: [tile of 16 columns][octet of
// rows][lane 4 g + i][4]: columns g, g + 8 of rows 2 i, 2 i + 1. Offset in groups of four.
PK_HOST_DEVICE constexpr std::uint32_t fragment_offset(std::uint32_t tile_index, std::uint32_t octet_index,
                                                       std::uint32_t lane) {
    return (tile_index * (pass_rows / octet) + octet_index) * 32 + lane;
}

}  // namespace mpk::cluster::prefill
