// The row-block product on tensor cores. Activations are the A operand (16 rows), weights the B operand (8
// weight rows a tile). The k axis of both is permuted alike, so that a lane's share of 32 columns is 16
// contiguous bytes of a row: lane 4 g + i takes columns 8 i .. 8 i + 7, the first four for one mma, the last
// four for the next.
#pragma once

#include "pk/platform/block.hpp"
#include "pk/ptx/load.hpp"
#include "pk/ptx/mma.hpp"
#include "pk/tile/bf16.hpp"

namespace pk::tile {

inline constexpr std::uint32_t product_rows = 16, product_cols = 32, tile_cols = 8;

// What each warp adds up over its share of k.
struct ProductScratch {
    float partial[block_warps][product_rows][product_cols];
};

// partial[w][r][c] = sum over the 32-column steps w, w + 8, .. of x_row(r)[k] * weight_row(c)[k] for r < rows
// <= 16 and c < 8 Tiles. The sums of a row do not depend on `rows`. Ends without a barrier.
template <std::uint32_t K, std::uint32_t Tiles, class XRow, class WeightRow>
PK_DEVICE void multiply(std::uint32_t rows, XRow x_row, WeightRow weight_row, ProductScratch& scratch) {
    constexpr std::uint32_t steps = padded(K) / 32;
    constexpr std::uint32_t depth = Tiles >= 4 ? 4 : 8;  // steps whose loads are in flight together
    const std::uint32_t g = lane() / 4, column = lane() % 4 * 8;

    const bf16* weights[Tiles];
    PK_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) weights[t] = weight_row(t * tile_cols + g) + column;
    const bf16* upper = g < rows ? x_row(g) + column : nullptr;
    const bf16* lower = g + 8 < rows ? x_row(g + 8) + column : nullptr;

    float sums[Tiles][4] = {};
    for (std::uint32_t base = warp(); base < steps; base += depth * block_warps) {
        uint4 w[depth][Tiles], a[depth][2];
        PK_UNROLL
        for (std::uint32_t d = 0; d < depth; ++d) {
            const std::uint32_t step = base + d * block_warps;
            PK_UNROLL
            for (std::uint32_t t = 0; t < Tiles; ++t) {
                w[d][t] = step < steps ? ptx::load_stream(weights[t] + step * 32) : uint4{};
            }
            const uint4 zero{};
            a[d][0] = step < steps && upper ? *reinterpret_cast<const uint4*>(upper + step * 32) : zero;
            a[d][1] = step < steps && lower ? *reinterpret_cast<const uint4*>(lower + step * 32) : zero;
        }
        PK_UNROLL
        for (std::uint32_t d = 0; d < depth; ++d) {
            PK_UNROLL
            for (std::uint32_t t = 0; t < Tiles; ++t) {
                ptx::mma_m16n8k16(sums[t], {a[d][0].x, a[d][1].x, a[d][0].y, a[d][1].y},
                                  {w[d][t].x, w[d][t].y});
                ptx::mma_m16n8k16(sums[t], {a[d][0].z, a[d][1].z, a[d][0].w, a[d][1].w},
                                  {w[d][t].z, w[d][t].w});
            }
        }
    }
    PK_UNROLL
    for (std::uint32_t t = 0; t < Tiles; ++t) {
        const std::uint32_t c = t * tile_cols + lane() % 4 * 2;
        float (*mine)[product_cols] = scratch.partial[warp()];
        *reinterpret_cast<float2*>(&mine[g][c]) = {sums[t][0], sums[t][1]};
        *reinterpret_cast<float2*>(&mine[g + 8][c]) = {sums[t][2], sums[t][3]};
    }
}

// Adds up what the warps have, always in the same order.
PK_DEVICE float gather(const ProductScratch& scratch, std::uint32_t row, std::uint32_t col) {
    float total = scratch.partial[0][row][col];
    PK_UNROLL
    for (std::uint32_t w = 1; w < block_warps; ++w) total += scratch.partial[w][row][col];
    return total;
}

// emit(row, col, sums) for every row < rows and col < cols, where sums[m] is the dot product over K columns
// of x_row(row) and weight_row(m, col). Rows are padded with zeros to a multiple of 32 columns and 16-byte
// aligned.
template <std::uint32_t K, std::uint32_t Matrices, class XRow, class WeightRow, class Emit>
PK_DEVICE void product(std::uint32_t rows, std::uint32_t cols, XRow x_row, WeightRow weight_row,
                       ProductScratch& scratch, Emit emit) {
    static_assert(Matrices == 1 || Matrices == 2);
    constexpr std::uint32_t width = product_cols / Matrices;  // columns of a sub-block
    for (std::uint32_t col = 0; col < cols; col += width) {
        const std::uint32_t here = cols - col < width ? cols - col : width;
        // Tiles beyond the last column read it again; nothing is emitted for them.
        const std::uint32_t tiles = (here + tile_cols - 1) / tile_cols;
        const std::uint32_t span = (tiles > 2 ? 4 : tiles) * tile_cols;  // columns of one matrix in the tiles
        const auto row_of = [&](std::uint32_t c) {
            const std::uint32_t matrix = Matrices == 1 ? 0 : c / span;
            const std::uint32_t within = Matrices == 1 ? c : c % span;
            return weight_row(matrix, col + (within < here ? within : here - 1));
        };
        for (std::uint32_t row = 0; row < rows; row += product_rows) {
            const std::uint32_t count = rows - row < product_rows ? rows - row : product_rows;
            const auto x = [&](std::uint32_t r) { return x_row(row + r); };
            switch (span * Matrices / tile_cols) {
                case 1:
                    multiply<K, 1>(count, x, row_of, scratch);
                    break;
                case 2:
                    multiply<K, 2>(count, x, row_of, scratch);
                    break;
                default:
                    multiply<K, 4>(count, x, row_of, scratch);
                    break;
            }
            sync_block();
            for (std::uint32_t i = thread_rank(); i < count * here; i += block_threads) {
                const std::uint32_t r = i / here, c = i % here;
                float sums[Matrices];
                PK_UNROLL
                for (std::uint32_t m = 0; m < Matrices; ++m) sums[m] = gather(scratch, r, m * span + c);
                emit(row + r, col + c, sums);
            }
            sync_block();
        }
    }
}

}  // namespace pk::tile
