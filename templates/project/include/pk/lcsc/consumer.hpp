// The consumers: two warpgroups that multiply what the loader brings, each 64 rows of a tile, and see to it
// that the sums get where they belong.
#pragma once

#include "pk/lcsc/epilogue.hpp"
#include "pk/lcsc/products.hpp"

namespace pk::lcsc {

template <class C>
class Consumer {
    using L = Layout<C>;

public:
    PK_DEVICE Consumer(Block<C>& block, std::uint32_t thread)
        : block_(block), lane_(thread), products_(block, lane_) {}

    PK_DEVICE void run() {
        const std::uint32_t steps = divide_up(block_.a.k, L::tile_k);
        block_.each_tile([&](const Tile& tile) {
            float c[L::sums];
            products_.multiply(c, steps);
            if (tile.rows == 0) return;
            if constexpr (C::reduce != Reduce::none) {
                if (!block_.is_own(tile)) return stage(c);
                wait_partials(tile);
                add_partials<C>(block_, lane_.thread, tile, c);
            }
            store_tile<C>(block_.a, lane_, tile, c);
            if constexpr (C::reduce == Reduce::all) {
                wait_place();
                hand_on();
            }
        });
    }

private:
    PK_DEVICE void stage(const float (&c)[L::sums]) {
        wait_place();
        stage_tile<C>(block_.staged(slot_.index), lane_.thread, c);
        hand_on();
    }

    // Until the place in the ring is free, also for a tile that lies elsewhere: pushers must not fall two
    // laps behind, or they miss the phase that they wait for.
    PK_DEVICE void wait_place() {
        block_.wait_all(block_.barriers().staged_free[slot_.index], slot_.parity ^ 1, Wait::staged_free,
                        slot_.index);
    }

    // What this thread wrote of a tile is released to the block's pushers.
    PK_DEVICE void hand_on() {
        if (!block_.patience.gone()) ptx::mbarrier_arrive(&block_.barriers().staged_full[slot_.index]);
        slot_.advance();
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
};

}  // namespace pk::lcsc
