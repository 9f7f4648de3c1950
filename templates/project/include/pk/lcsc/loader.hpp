// The loader: one thread that brings the operands of tile after tile into the ring, as far ahead as there
// are free pages. It alone waits for rows of peers: consumers see full pages.
#pragma once

#include "pk/lcsc/block.hpp"
#include "pk/ptx/bulk_copy.hpp"
#include "pk/ptx/fence.hpp"
#include "pk/ptx/tensor_copy.hpp"

namespace pk::lcsc {

// A matrix of rows that are dealt to ranks, or a rank's own. Boxes are as high as a tile, or as the last of a
// shard: to load what lies outside the matrix takes longer than what lies inside (tests/bench/NOTES.md).
struct RowMaps {
    ptx::TensorMap whole;
    ptx::TensorMap ends[2];  // of shards with shards.each rows, and of one with fewer

    PK_DEVICE const ptx::TensorMap& of(const Tile& tile, const Shards& shards, std::uint32_t height) const {
        return tile.rows == height ? whole : ends[tile.rows == shards.each % height ? 0 : 1];
    }
};

// Boxes of 64 columns, swizzled; of the weights of Layout::part_rows. `up`: the second weight, where there
// are two.
struct Maps {
    RowMaps shard, gathered[2];
    ptx::TensorMap weight, up;
};

// The ring as the loader fills it.
template <class C>
class Stages {
    using L = Layout<C>;

public:
    PK_DEVICE explicit Stages(Block<C>& block) : block_(block) {}

    // `count` rows from `row` on and steps from `k` on into the next stage; weights(to, barrier) loads what
    // goes with them. The stage is free when the consumers of all blocks of the cluster have read it. Rows of
    // a tile past its last keep what was there, of which come sums that nobody stores.
    template <class Weights>
    PK_DEVICE void load(const ptx::TensorMap& rows, std::uint32_t row, std::uint32_t count, std::uint32_t k,
                        Weights weights) {
        auto& barriers = block_.barriers();
        if (!block_.wait(barriers.empty[place_.index], place_.parity ^ 1, Wait::page_empty, place_.index))
            return;
        std::uint64_t* full = &barriers.full[place_.index];
        const std::uint32_t at = ptx::shared_address(block_.memory) + place_.index * L::stage_bytes;
        ptx::mbarrier_arrive_expect_tx(full, count * L::tile_k * 2 + members * L::part_bytes);
        if (count != 0) ptx::tensor_load(at, rows, row, k, ptx::shared_address(full));
        weights(at + L::rows_bytes, ptx::shared_address(full));
        place_.advance();
    }

    PK_DEVICE void settle() const { block_.patience.outlive_copies(); }

private:
    Block<C>& block_;
    RingPlace<C::stages> place_;
};

template <class C>
class Loader {
    using L = Layout<C>;

public:
    PK_DEVICE Loader(Block<C>& block, const Maps& maps) : block_(block), maps_(maps), stages_(block) {}

    PK_DEVICE static void prefetch(const Maps& maps) {
        ptx::prefetch_map(maps.shard.whole);
        ptx::prefetch_map(maps.weight);
        if constexpr (C::silu_mul) ptx::prefetch_map(maps.up);
    }

    PK_DEVICE void run() {
        const Arguments& a = block_.a;
        block_.each_part([&](const Tile& tile, const Part& part) {
            block_.wait_for_memory();
            const RowMaps* rows = &maps_.shard;
            std::uint32_t row = tile.row;
            if constexpr (C::gather) {
                if (block_.is_own(tile)) {
                    row -= a.shards.begin(a.rank);
                } else {
                    if (tile.rows != 0) wait_rows(tile);
                    rows = &maps_.gathered[a.copied ? 0 : block_.parity()];
                }
            }
            if constexpr (C::reduce != Reduce::none) {
                if (part.finishes) prefetch_partials(tile);
            }
            for (std::uint32_t step = part.begin; step < part.end; ++step)
                load(tile, rows->of(tile, a.shards, L::tile_m), row, step * L::tile_k);
        });
        stages_.settle();
    }

private:
    // Acquires what the owner's pushers released, or what its copy engine copied before the flag; they wrote
    // in the generic proxy, the bulk copies read in the async proxy.
    PK_DEVICE void wait_rows(const Tile& tile) {
        const std::uint32_t* flag = block_.flags(block_.a.rank, block_.a.workspace.gathered_flags) +
                                    tile.owner * block_.a.workspace.blocks + tile.block;
        block_.patience.flag(flag, block_.epoch, Wait::gathered, tile.block, tile.owner);
        ptx::fence_proxy_async();
    }

    // Only a hint, so it matters little if they have not come.
    PK_DEVICE void prefetch_partials(const Tile& tile) {
        if (!block_.is_own(tile) || tile.rows == 0) return;
        for (std::uint32_t source = 0; source < block_.a.world; ++source) {
            if (source != block_.a.rank) ptx::prefetch_l2(block_.partial(tile, source), L::staged_bytes);
        }
    }

    PK_DEVICE void load(const Tile& tile, const ptx::TensorMap& rows, std::uint32_t row, std::uint32_t k) {
        const std::uint32_t member = block_.member();
        stages_.load(rows, row, tile.rows, k, [&](std::uint32_t to, std::uint32_t barrier) {
            to += member * L::part_bytes;
            if constexpr (C::silu_mul) {
                const ptx::TensorMap& half = member == 0 ? maps_.weight : maps_.up;
                ptx::tensor_load_to_all(to, half, tile.column / 2, k, barrier, all_members);
            } else {
                ptx::tensor_load_to_all(to, maps_.weight, tile.column + member * L::part_rows, k, barrier,
                                        all_members);
            }
        });
    }

    static constexpr std::uint16_t all_members = (1u << members) - 1;

    Block<C>& block_;
    const Maps& maps_;
    Stages<C> stages_;
};

}  // namespace pk::lcsc
