// Products of few rows (narrow.hpp): how the work is dealt to blocks, and the memory that takes, all of it
// zero at first. A row here is one of the weight (of both weights, where there are two), unless said.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::lcsc::narrow {

inline constexpr std::uint32_t max_m = 128, most_blocks = 144, max_rows = 256, max_splits = 8,
                               least_stages = 4, max_depth = 4, max_stages = 16;
inline constexpr std::uint32_t consumer_warps = 8, consumer_threads = consumer_warps * 32;
inline constexpr std::uint32_t loaders = 2;  // the last warps, of each one thread
inline constexpr std::uint32_t block_size = consumer_threads + loaders * 32;

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

// One block to an SM: of two kernels whose ends and beginnings overlap, no SM gets two blocks and another
// none.
inline constexpr std::uint32_t shared_bytes = 220 * 1024;
// Of that the ring. Where columns are few more under way than this makes it slower (tests/bench/NOTES.md).
PK_HOST_DEVICE constexpr std::uint32_t ring_bytes(std::uint32_t padded_m) {
    return ((wide(padded_m) ? 220 : 112) - 1) * 1024;
}

// A cluster of `splits` blocks has `rows` rows at a time, each block a part of the sum over k. All ranks have
// the same plan.
struct Plan {
    std::uint32_t rows, splits, blocks;  // blocks of rows
    std::uint32_t clusters;              // grid: clusters * splits blocks
    std::uint32_t depth;                 // of a stage of the ring: steps of 64
    std::uint32_t stages;                // of the ring

    PK_HOST_DEVICE constexpr std::uint32_t slots() const { return blocks * splits; }
};

// Shared memory of a step of the ring; the sums of a block of rows lie in the ring afterwards.
PK_HOST_DEVICE constexpr std::uint32_t step_bytes(std::uint32_t m, std::uint32_t rows) {
    return (padded(m) + rows) * 128;
}
PK_HOST_DEVICE constexpr std::uint32_t sum_stride(std::uint32_t rows) {
    return rows + 4;
}

// Pieces of eight sums that one block of a cluster stores, or exchanges: `stripe` after the other of what the
// cluster has go round its blocks, so that all have some of every rank's rows.
inline constexpr std::uint32_t stripe = 8;
PK_HOST_DEVICE constexpr std::uint32_t slot_pieces(std::uint32_t m, std::uint32_t rows,
                                                   std::uint32_t splits) {
    const std::uint32_t all = m * (rows / 8), round = splits * stripe;
    return (all + round - 1) / round * stripe;
}

// `clusters`: how many of `splits` blocks the device runs at once.
constexpr Plan plan(std::uint32_t m, std::uint32_t n, std::uint32_t splits, std::uint32_t clusters) {
    const std::uint32_t tile = tile_rows(padded(m)), tiles = (n + tile - 1) / tile, most = max_rows / tile;
    const std::uint32_t fair = (tiles + clusters - 1) / clusters, rounds = (fair + most - 1) / most;
    const std::uint32_t each = (tiles + clusters * rounds - 1) / (clusters * rounds);
    Plan p{each * tile, splits, (tiles + each - 1) / each, 0, 0, 0};
    p.clusters = p.blocks < clusters ? p.blocks : clusters;
    // A stage is handed over and back in the time of 0.2 us of loads, so it should be more than that; and
    // there should be several. Of wide products one step is enough.
    const std::uint32_t steps = ring_bytes(padded(m)) / step_bytes(m, p.rows), few = steps / least_stages;
    p.depth = wide(padded(m)) || few == 0 ? 1 : few < max_depth ? few : max_depth;
    p.stages = steps / p.depth < max_stages ? steps / p.depth : max_stages;
    return p;
}

// Clusters of so many blocks that a device runs at the same time.
struct Clusters {
    std::uint32_t ones = 0, twos = 0, fours = 0;

    constexpr std::uint32_t of(std::uint32_t splits) const {
        return splits == 1 ? ones : splits == 2 ? twos : fours;
    }
    void limit(const Clusters& other) {
        ones = ones < other.ones ? ones : other.ones;
        twos = twos < other.twos ? twos : other.twos;
        fours = fours < other.fours ? fours : other.fours;
    }
};

// About how long a block takes, in ns, to tell one plan from another; fitted to products of 1 to 128 rows on
// an H200 (tests/bench/NOTES.md): what an SM loads, or all of them, of the activations a part, as they come
// from L2; what a step takes at least; what a sum takes afterwards.
constexpr double block_ns(const Plan& p, std::uint32_t m, std::uint32_t k) {
    const double of_sm = 38, of_all = 4700, of_activations = 0.2;  // bytes in a ns; a part
    const double step = wide(padded(m)) ? 330 : 140, sum = wide(padded(m)) ? 0.2 : 0.1;
    const double bytes = (p.rows + of_activations * padded(m)) * 128, blocks = p.clusters * p.splits;
    const double loads = bytes * (blocks * of_sm > of_all ? blocks / of_all : 1 / of_sm);
    const double steps = static_cast<double>((k + 63) / 64) / p.splits;
    const std::uint32_t rounds = (p.blocks + p.clusters - 1) / p.clusters;
    return rounds * (steps * (loads > step ? loads : step) + sum * p.rows * m);
}

// The best plan of those whose blocks exchange no more than `most_pieces` each; without clusters where there
// is none.
constexpr Plan best_plan(std::uint32_t m, std::uint32_t n, std::uint32_t k, const Clusters& clusters,
                         std::uint64_t most_pieces) {
    Plan best{};
    for (const std::uint32_t splits : {4u, 2u, 1u}) {
        if (clusters.of(splits) == 0) continue;
        const Plan p = plan(m, n, splits, clusters.of(splits));
        if (slot_pieces(m, p.rows, splits) > most_pieces) continue;
        if (best.clusters == 0 || block_ns(p, m, k) < block_ns(best, m, k)) best = p;
    }
    return best;
}

// Rows of a call, at most: where sums are exchanged, all that a rank has added up goes to every peer.
constexpr std::uint32_t most_m(std::uint32_t world, bool reduces) {
    return world <= 2 || !reduces ? max_m : max_m / (world - 1);
}

// What every plan for m rows or fewer and n columns or fewer has room in. Where clusters have more than one
// block of rows, these are more than half as large as can be.
constexpr std::uint32_t most_slots(std::uint32_t n) {
    const std::uint32_t blocks = (n + max_rows - 1) / max_rows * 8;
    return blocks < most_blocks ? most_blocks : blocks;
}
constexpr std::uint64_t most_slot_bytes(std::uint32_t m, std::uint32_t partial_size) {
    const std::uint32_t few = slot_pieces(m < 16 ? m : 16, max_rows, 2), many = slot_pieces(m, max_rows, 4);
    return std::uint64_t{few < many ? many : few} * 8 * partial_size;
}

}  // namespace pk::lcsc::narrow
