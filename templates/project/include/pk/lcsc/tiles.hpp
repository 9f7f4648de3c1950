// How the output of a product is cut into tiles, to which rank a tile belongs, and in which order the tiles
// are computed. Used by every role of a block, on the GPU and on the host, so that all agree.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::lcsc {

PK_HOST_DEVICE constexpr std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) {
    return a / b + (a % b != 0 ? 1 : 0);
}

// Rows dealt to ranks: `each` to one after the other, what is left to the last that get any.
struct Shards {
    std::uint32_t rows, each;

    PK_HOST_DEVICE std::uint32_t begin(std::uint32_t rank) const {
        const std::uint64_t at = std::uint64_t{rank} * each;
        return at < rows ? static_cast<std::uint32_t>(at) : rows;
    }
    PK_HOST_DEVICE std::uint32_t count(std::uint32_t rank) const {
        const std::uint32_t left = rows - begin(rank);
        return left < each ? left : each;
    }
};

PK_HOST_DEVICE Shards deal_rows(std::uint32_t rows, std::uint32_t world) {
    return {rows, divide_up(rows, world)};
}

// No tile has rows of two shards. `slot`: its number among the tiles of its owner, whatever the order.
struct Tile {
    std::uint32_t row, column;   // of its first element, in the whole output
    std::uint32_t rows;          // fewer than a tile's, or none, at the end of a shard
    std::uint32_t owner, block;  // the rank whose rows these are, and which block of them
    std::uint32_t slot;
};

// What the order depends on.
struct TileGrid {
    std::uint32_t tile_rows, tile_columns;
    std::uint32_t members;  // tiles, one below the other, that a cluster of blocks computes at the same time
    std::uint32_t group;    // rows of such pairs (or more) that are walked column by column
};

// Shard by shard, from that of `first_owner` on, round the ranks; in a shard group by group, so that tiles
// computed at the same time share rows of both operands in L2.
class TileOrder {
public:
    PK_HOST_DEVICE TileOrder(Shards shards, std::uint32_t world, std::uint32_t columns, const TileGrid& grid,
                             std::uint32_t first_owner)
        : shards_(shards),
          grid_(grid),
          world_(world),
          across_(divide_up(columns, grid.tile_columns)),
          first_owner_(first_owner) {}

    // Blocks of rows of a shard.
    PK_HOST_DEVICE std::uint32_t blocks(std::uint32_t rank) const {
        return divide_up(shards_.count(rank), grid_.tile_rows);
    }
    // Places of the order: each holds a tile for every member.
    PK_HOST_DEVICE std::uint32_t count() const {
        std::uint32_t all = 0;
        for (std::uint32_t r = 0; r < world_; ++r) all += places(r);
        return all;
    }

    // The tile of a member in a place below count().
    PK_HOST_DEVICE Tile at(std::uint32_t place, std::uint32_t member) const {
        std::uint32_t owner = first_owner_;
        for (std::uint32_t own; place >= (own = places(owner));) {
            place -= own;
            owner = owner + 1 == world_ ? 0 : owner + 1;
        }
        const std::uint32_t of_group = grid_.group * across_;
        const std::uint32_t first = place / of_group * grid_.group, inside = place % of_group;
        const std::uint32_t left = down(owner) - first, high = left < grid_.group ? left : grid_.group;
        const std::uint32_t block = (first + inside % high) * grid_.members + member, column = inside / high;
        const std::uint32_t at = block * grid_.tile_rows, all = shards_.count(owner);
        const std::uint32_t rest = at < all ? all - at : 0;
        return {shards_.begin(owner) + at,
                column * grid_.tile_columns,
                rest < grid_.tile_rows ? rest : grid_.tile_rows,
                owner,
                block,
                block * across_ + column};
    }

private:
    PK_HOST_DEVICE std::uint32_t down(std::uint32_t rank) const {
        return divide_up(blocks(rank), grid_.members);
    }
    PK_HOST_DEVICE std::uint32_t places(std::uint32_t rank) const { return down(rank) * across_; }

    Shards shards_;
    TileGrid grid_;
    std::uint32_t world_, across_, first_owner_;
};

}  // namespace pk::lcsc
