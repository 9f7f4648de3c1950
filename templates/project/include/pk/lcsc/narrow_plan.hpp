// Products of few rows (narrow.hpp): how the work is dealt to blocks, and the memory that takes, all of it
// zero at first. A row here is one of the weight (of both weights, where there are two), unless said.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::lcsc::narrow {

inline constexpr std::uint32_t max_m = 128, most_blocks = 144, max_rows = 256, max_splits = 8,
                               max_stages = 16;
inline constexpr std::uint32_t consumer_warps = 8, consumer_threads = consumer_warps * 32;
inline constexpr std::uint32_t block_size = consumer_threads + 32;  // the last warp loads

// The activations are padded to so many rows.
PK_HOST_DEVICE constexpr std::uint32_t padded(std::uint32_t m) {
    return m <= 8 ? 8 : m <= 16 ? 16 : m <= 32 ? 32 : m <= 64 ? 64 : 128;
}

// How the consumers share a stage, 64 steps of the sum: in groups of warps, each with every so many-th tile
// of rows; and of a group's warps each has a part of the steps. Where there are columns enough (wide), a
// warpgroup's product takes all.
PK_HOST_DEVICE constexpr bool wide(std::uint32_t padded_m) {
    return padded_m >= 64;
}
PK_HOST_DEVICE constexpr std::uint32_t tile_rows(std::uint32_t padded_m) {
    return wide(padded_m) ? 64 : 16;
}
PK_HOST_DEVICE constexpr std::uint32_t tile_groups(std::uint32_t padded_m) {
    return padded_m == 32 ? 4 : 2;
}
PK_HOST_DEVICE constexpr std::uint32_t step_parts(std::uint32_t padded_m) {
    return wide(padded_m) ? 1 : consumer_warps / tile_groups(padded_m);
}
PK_HOST_DEVICE constexpr std::uint32_t group_tiles(std::uint32_t padded_m) {
    return max_rows / tile_rows(padded_m) / tile_groups(padded_m);
}

// Where registers and the ring allow it, two blocks share an SM, so that a call can fill its ring while the
// call before it ends.
PK_HOST_DEVICE constexpr std::uint32_t blocks_of_sm(std::uint32_t padded_m) {
    return wide(padded_m) ? 1 : 2;
}
PK_HOST_DEVICE constexpr std::uint32_t shared_bytes(std::uint32_t padded_m) {
    return (wide(padded_m) ? 220 : 112) * 1024;
}

// A cluster of `splits` blocks has `rows` rows at a time, each block a part of the sum over k. All ranks have
// the same plan.
struct Plan {
    std::uint32_t rows, splits, blocks;  // blocks of rows
    std::uint32_t clusters;              // grid: clusters * splits blocks
    std::uint32_t stages;                // of the ring

    PK_HOST_DEVICE constexpr std::uint32_t slots() const { return blocks * splits; }
};

// Shared memory of the ring; the sums of a block of rows lie in it afterwards.
PK_HOST_DEVICE constexpr std::uint32_t stage_bytes(std::uint32_t m, std::uint32_t rows) {
    return (padded(m) + rows) * 128;
}
PK_HOST_DEVICE constexpr std::uint32_t sum_stride(std::uint32_t rows) {
    return rows + 4;
}

// `clusters`: how many of `splits` blocks the device runs at once (cudaOccupancyMaxActiveClusters; the SMs,
// for one).
constexpr Plan plan(std::uint32_t m, std::uint32_t n, std::uint32_t splits, std::uint32_t clusters) {
    const std::uint32_t tile = tile_rows(padded(m)), tiles = (n + tile - 1) / tile, most = max_rows / tile;
    const std::uint32_t fair = (tiles + clusters - 1) / clusters, each = fair < most ? fair : most;
    Plan p{each * tile, splits, (tiles + each - 1) / each, 0, 0};
    p.clusters = p.blocks < clusters ? p.blocks : clusters;
    const std::uint32_t stages = (shared_bytes(padded(m)) - 1024) / stage_bytes(m, p.rows);
    p.stages = stages < max_stages ? stages : max_stages;
    return p;
}

// Blocks of a cluster, of which `fours` of four can run at once. Where activations are few it pays to have
// many stages under way, and so not too many rows in each.
constexpr std::uint32_t splits_for(std::uint32_t m, std::uint32_t n, std::uint32_t fours) {
    constexpr std::uint32_t many = 128;
    return m <= 16 && (fours == 0 || plan(m, n, 4, fours).rows > many) ? 2 : 4;
}

// Rows of a call, at most: where sums are exchanged, all that a rank has added up goes to every peer.
constexpr std::uint32_t most_m(std::uint32_t world, bool reduces) {
    return world <= 2 || !reduces ? max_m : max_m / (world - 1);
}

// Pieces of eight sums that one block of a cluster stores, or exchanges: `stripe` after the other of what the
// cluster has go round its blocks, so that all have some of every rank's rows.
inline constexpr std::uint32_t stripe = 8;
PK_HOST_DEVICE constexpr std::uint32_t slot_pieces(std::uint32_t m, std::uint32_t rows,
                                                   std::uint32_t splits) {
    const std::uint32_t all = m * (rows / 8), round = splits * stripe;
    return (all + round - 1) / round * stripe;
}

// What every plan for m rows or fewer and n columns or fewer has room in: the clusters of a plan are no more
// than most_blocks allow, or its rows as many as can be.
constexpr std::uint32_t most_slots(std::uint32_t n) {
    const std::uint32_t blocks = (n + max_rows - 1) / max_rows * 4;
    return blocks < most_blocks ? most_blocks : blocks;
}
constexpr std::uint64_t most_slot_bytes(std::uint32_t m, std::uint32_t partial_size) {
    const std::uint32_t few = slot_pieces(m < 16 ? m : 16, max_rows, 2), many = slot_pieces(m, max_rows, 4);
    return std::uint64_t{few < many ? many : few} * 8 * partial_size;
}

}  // namespace pk::lcsc::narrow
