// Shared memory of a block of the prefill kernel: a ring of stages, which a warp fills and the others read,
// and what those exchange.
#pragma once

#include "mpk/cluster/prefill/pass.hpp"

namespace mpk::cluster::prefill {

inline constexpr std::uint32_t block_size = consumers + 128;  // and a warpgroup of which one warp loads
inline constexpr std::uint32_t stages = 4;
inline constexpr std::uint32_t stage_bytes = 49152;

struct Control {
    std::uint64_t full[stages], empty[stages];
    Pass pass, loader_pass;
};

// Offsets in bytes.
struct Memory {
    static constexpr std::uint32_t ring = 0;
    // Activations on their way to global memory, 256 rows of 64 bytes for each warpgroup.
    static constexpr std::uint32_t staging = ring + stages * stage_bytes, staging_bytes = 256 * 64;
    static constexpr std::uint32_t scales = staging + 2 * staging_bytes;  // [pass_rows] f32: 1 / rms
    static constexpr std::uint32_t control = scales + pass_rows * 4;
    static constexpr std::uint32_t bytes = control + sizeof(Control);
};
static_assert(Memory::bytes <= 232448);  // of a block on sm_90

// How a product is cut into items: 16-row tiles of the weight by tokens, `chunks` of the columns a stage.
struct TileSize {
    std::uint32_t tiles, tokens, chunks;

    PK_HOST_DEVICE constexpr std::uint32_t weight_bytes() const { return chunks * tiles * tile_bytes; }
    PK_HOST_DEVICE constexpr std::uint32_t bytes() const { return weight_bytes() + chunks * tokens * 64; }
    PK_HOST_DEVICE std::uint32_t items(const Product& product, std::uint32_t rows) const {
        return (product.tiles + tiles - 1) / tiles * product.parts * ((rows + tokens - 1) / tokens);
    }
};

// Of the two warpgroups each takes 64 rows of the weight and `width` tokens: other rows than the other one,
// or the same rows and other tokens.
template <std::uint32_t RowGroups, std::uint32_t Width, std::uint32_t Chunks>
struct Tile {
    static constexpr std::uint32_t row_groups = RowGroups, token_groups = 2 / RowGroups, width = Width;
    static constexpr std::uint32_t tiles = 4 * RowGroups, tokens = Width * token_groups, chunks = Chunks;
    static constexpr TileSize size = {tiles, tokens, chunks};
    static constexpr std::uint32_t block = Width < 128 ? Width : 128;  // tokens that one instruction takes
    static constexpr std::uint32_t blocks = Width / block;
    // Chunks whose weights a thread has in registers, beside those that come next.
    static constexpr std::uint32_t batch = 2;
    static_assert(size.bytes() <= stage_bytes && pass_rows % tokens == 0 && part_chunks % chunks == 0);
    static_assert(chunks * tiles <= 32);  // copies of the weights: one a lane at most
};

// An item: items that differ in their tokens only are neighbours, as they read the same weights.
struct Item {
    std::uint32_t first_tile, part, first_row;
    Part chunks;

    PK_HOST_DEVICE Item(const TileSize& size, const Product& product, std::uint32_t rows,
                        std::uint32_t index) {
        const std::uint32_t across = (rows + size.tokens - 1) / size.tokens;
        first_row = index % across * size.tokens;
        index /= across;
        part = index % product.parts;
        first_tile = index / product.parts * size.tiles;
        chunks = product.part(part);
    }
};

// visit(tile) with the tile for so many rows: few rows read each weight once and are bound by that, so they
// are cut into more items.
template <class Visit>
PK_HOST_DEVICE void with_tile(std::uint32_t rows, Visit visit) {
    if (rows <= 64) {
        visit(Tile<1, 32, 4>{});
    } else if (rows <= 128) {
        visit(Tile<1, 64, 4>{});
    } else {
        visit(Tile<2, 256, 2>{});
    }
}

}  // namespace mpk::cluster::prefill
