// The consumers: two warpgroups that multiply what the loader brings, each 64 rows of a tile, and see to it
// that the sums get where they belong.
#pragma once

#include "pk/lcsc/epilogue.hpp"
#include "pk/lcsc/products.hpp"
#include "pk/lcsc/tally.hpp"
#include "pk/ptx/named_barrier.hpp"

namespace pk::lcsc {

template <class C>
class Consumer {
    using L = Layout<C>;

public:
    PK_DEVICE Consumer(Block<C>& block, std::uint32_t thread)
        : block_(block), lane_(thread), products_(block, lane_) {}

    PK_DEVICE void run() {
        block_.each_part([&](const Tile& tile, const Part& part) {
            block_.wait_for_memory();  // so that no timeout runs while a kernel before this one does
            float c[L::sums];
            if (lane_.group * 64 < tile.rows) {
                products_.multiply(c, part.steps());
            } else {
                products_.skip(c, part.steps());
            }
            if constexpr (inter_sm<C>) ++tiles_;
            if (tile.rows == 0) return;
            if (!part.finishes) return help(c);
            add_parts(part, c);
            if constexpr (C::reduce != Reduce::none) {
                if (!block_.is_own(tile)) return stage(c);
                wait_partials(tile);
                add_partials<C>(block_, lane_.thread, tile, c);
            }
            store_tile<C>(block_.a, lane_, tile, c);
            if constexpr (C::reduce == Reduce::all) {
                // A barrier tells one lap from the next, but not from the one after that: pushers must have
                // seen the last. Counts tell all of them.
                if constexpr (!inter_sm<C>) wait_free();
                hand_on();
            }
        });
        block_.patience.outlive_copies();
    }

private:
    // The sums of a part to whoever finishes the tile: by one thread, after a barrier of all, at gpu scope.
    PK_DEVICE void help(const float (&c)[L::sums]) {
        store_sums<WholePieces<C>>(block_.part_of(block_.sm), lane_.thread, c);
        const bool gone = ptx::named_barrier_any<1, consumer_threads>(block_.patience.gone());
        if (lane_.thread == 0 && !gone) store_release(&block_.a.part_flags[block_.sm], block_.epoch);
    }
    // And theirs. Each warp acquires them for itself: what one lane does, the warp barrier hands on.
    PK_DEVICE void add_parts(const Part& part, float (&c)[L::sums]) {
        block_.deal.each_helper(block_.worker(), part, [&](std::uint32_t helper) {
            const std::uint32_t block = helper * members + block_.member();
            if (lane_.thread % 32 == 0) {
                block_.patience.until(
                    [&](std::uint32_t& seen) {
                        seen = load_acquire(&block_.a.part_flags[block]);
                        return reached(seen, block_.epoch);
                    },
                    Wait::part, block, block_.a.rank, block_.epoch);
            }
            __syncwarp();
            add_sums<WholePieces<C>>(block_.part_of(block), lane_.thread, c);
        });
    }

    PK_DEVICE void stage(const float (&c)[L::sums]) {
        wait_free();
        store_sums<Pieces<C>>(block_.staged(block_.sm, slot()), lane_.thread, c);
        hand_on();
    }

    PK_DEVICE std::uint32_t slot() const {
        return inter_sm<C> ? (tiles_ - 1) % L::staging_slots : slot_.index;
    }

    // Until what was in the slot has been pushed. From pushers of another block each warp acquires it for
    // itself: the warp barrier hands on to all lanes what some have acquired.
    PK_DEVICE void wait_free() {
        if constexpr (inter_sm<C>) {
            const std::uint32_t pusher = lane_.thread % 32;
            if (tiles_ > L::staging_slots && pusher < pushers) {
                const std::uint32_t before = tiles_ - L::staging_slots;
                const std::uint64_t* count = &block_.a.tallies[block_.sm].pushed[pusher];
                block_.patience.until(
                    [&](std::uint32_t& seen) {
                        return look_at_tally(count, tally(block_.epoch, before), seen);
                    },
                    Wait::staged_free, block_.sm * L::staging_slots + slot(), block_.a.rank, before);
            }
            __syncwarp();
        } else {
            block_.wait_all(block_.barriers().staged_free[slot_.index], slot_.parity ^ 1, Wait::staged_free,
                            slot_.index);
        }
    }

    // What this thread wrote of a tile is released to the block's pushers; or, by one thread after a barrier
    // of all consumers, what all of them wrote to the agent, at gpu scope.
    PK_DEVICE void hand_on() {
        if constexpr (inter_sm<C>) {
            const bool gone = ptx::named_barrier_any<1, consumer_threads>(block_.patience.gone());
            if (lane_.thread == 0 && !gone)
                store_release(&block_.a.tallies[block_.sm].staged, tally(block_.epoch, tiles_));
        } else {
            if (!block_.patience.gone()) ptx::mbarrier_arrive(&block_.barriers().staged_full[slot_.index]);
            slot_.advance();
        }
    }

    // Until all other ranks have pushed their summands of the tile. Each warp looks for itself: what a lane
    // acquires, the warp barrier hands on to the others.
    PK_DEVICE void wait_partials(const Tile& tile) {
        const Arguments& a = block_.a;
        for (std::uint32_t n = lane_.thread % 32; n < a.world * pushers; n += 32) {
            const std::uint32_t source = n / pushers;
            if (source == a.rank) continue;
            block_.patience.flag(block_.partial_flag(tile, source, n % pushers), block_.epoch, Wait::partial,
                                 tile.slot, source);
        }
        __syncwarp();
    }

    Block<C>& block_;
    Lane lane_;
    Products<C> products_;
    RingPlace<L::staging_slots> slot_;
    std::uint32_t tiles_ = 0;  // inter_sm: of this block, up to the one at hand
};

}  // namespace pk::lcsc
