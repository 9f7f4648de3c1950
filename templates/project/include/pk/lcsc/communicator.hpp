// The communicator: agents of three warps each, the pushers, that bring rows and tiles to peers while others
// compute: those of the same block, or other blocks (schedule.hpp). Peers are only ever written to: a store
// needs no answer, a load waits for one.
#pragma once

#include "pk/lcsc/mover.hpp"
#include "pk/lcsc/peers.hpp"
#include "pk/lcsc/tally.hpp"

namespace pk::lcsc {

template <class C>
class Pusher {
    using L = Layout<C>;

public:
    // `warp`: of the pushers of its block.
    PK_DEVICE Pusher(Block<C>& block, std::uint32_t agent, std::uint32_t warp, std::uint32_t lane)
        : block_(block),
          agent_(agent),
          number_(warp % pushers),
          lane_(lane),
          mover_(block, warp, lane),
          peers_(block.a, block.patience, block.epoch, lane) {}

    PK_DEVICE void run() {
        if (block_.patience.gone() || (!block_.a.copied && !peers_.wait_for_buffers(C::gather))) return;
        if (is_first()) peers_.show_card();
        if constexpr (C::gather) {
            if (!block_.a.copied) push_rows();
        }
        if constexpr (C::reduce != Reduce::none) {
            if constexpr (inter_sm<C>) {
                push_tiles_of_blocks();
            } else {
                push_tiles();
            }
        }
        if constexpr (C::reduce == Reduce::all) exchange_ends();
        if (is_first()) peers_.compare_cards();
        if constexpr (C::keep_rows) keep_rows();
    }

private:
    PK_DEVICE bool is_first() const { return agent_ == 0 && number_ == 0; }

    // all-gather: this rank's rows to every peer. Units of some rows go round the pushers of all agents, in
    // order, so that the first rows arrive first.
    PK_DEVICE void push_rows() {
        const Arguments& a = block_.a;
        const auto* rows = static_cast<const unsigned char*>(a.shard);
        each_unit(a.shards.count(a.rank), [&](std::uint32_t of, std::uint32_t begin, std::uint32_t end,
                                              std::uint32_t units_of_block) {
            const auto* from = rows + std::uint64_t{begin} * a.shard_stride * 2;
            const std::uint64_t to = a.workspace.gathered[block_.parity()] +
                                     (std::uint64_t{a.shards.begin(a.rank)} + begin) * a.k * 2;
            mover_.move(
                begin < end ? end - begin : 0, a.k / 8,
                [&](std::uint32_t run) { return from + std::uint64_t{run} * a.shard_stride * 2; },
                [&](std::uint32_t run, auto store) {
                    to_peers([&](std::uint32_t peer) {
                        store(reinterpret_cast<unsigned char*>(a.peers[peer]) + to +
                              std::uint64_t{run} * a.k * 2);
                    });
                });
            finish_unit(of, units_of_block);
        });
    }

    // body(block, begin, end, units_of_block) for this pusher's units of so many rows of a rank: rows from
    // `begin` on, maybe none.
    template <class Body>
    PK_DEVICE void each_unit(std::uint32_t rows, Body body) {
        const std::uint32_t pieces = block_.a.k / 8;  // of 16 bytes
        const std::uint32_t unit_rows = pieces < unit_pieces ? unit_pieces / pieces : 1;
        const std::uint32_t units_of_block = divide_up(L::tile_m, unit_rows);
        const std::uint32_t units = divide_up(rows, L::tile_m) * units_of_block;
        for (std::uint32_t u = agent_ * pushers + number_; u < units; u += agents() * pushers) {
            const std::uint32_t of = u / units_of_block, at = of * L::tile_m;
            const std::uint32_t last = rows - at < L::tile_m ? rows : at + L::tile_m;
            const std::uint32_t begin = at + u % units_of_block * unit_rows;
            body(of, begin, last < begin + unit_rows ? last : begin + unit_rows, units_of_block);
        }
    }

    // All rows to the caller's matrix, this rank's own first. The call ends after that, so peers send the
    // next rows to where these were only when they have been read.
    PK_DEVICE void keep_rows() {
        const Arguments& a = block_.a;
        const std::uint64_t to_stride = std::uint64_t{a.full_stride} * 2;
        for (std::uint32_t n = 0, owner = a.rank; n < a.world;
             ++n, owner = owner + 1 == a.world ? 0 : owner + 1) {
            const bool own = owner == a.rank;
            const std::uint64_t from_stride = std::uint64_t{own ? a.shard_stride : a.k} * 2;
            const std::uint64_t first = a.shards.begin(owner);
            const auto* from = static_cast<const unsigned char*>(a.shard);
            if (!own) {
                const std::uint64_t at = a.workspace.gathered[a.copied ? 0 : block_.parity()];
                from = reinterpret_cast<const unsigned char*>(a.peers[a.rank]) + at + first * from_stride;
            }
            auto* to = static_cast<unsigned char*>(a.full) + first * to_stride;
            each_unit(a.shards.count(owner), [&](std::uint32_t of, std::uint32_t begin, std::uint32_t end,
                                                 std::uint32_t) {
                if (begin >= end || (!own && !wait_rows(owner, of))) return;
                mover_.template move<false>(
                    end - begin, a.k / 8,
                    [&](std::uint32_t run) { return from + (std::uint64_t{begin} + run) * from_stride; },
                    [&](std::uint32_t run, auto store) {
                        store(to + (std::uint64_t{begin} + run) * to_stride);
                    });
            });
        }
        mover_.settle();
    }

    // A block of rows of a peer; all lanes. What the first lane acquires, of the owner's pushers or of its
    // copy engine, the warp barrier hands on to the others.
    PK_DEVICE bool wait_rows(std::uint32_t owner, std::uint32_t of) {
        const Arguments& a = block_.a;
        const std::uint32_t* flag =
            block_.flags(a.rank, a.workspace.gathered_flags) + owner * a.workspace.blocks + of;
        const bool there = lane_ != 0 || block_.patience.flag(flag, block_.epoch, Wait::gathered, of, owner);
        __syncwarp();
        return __all_sync(~0u, there);
    }

    // The last of a block's units signals the block. What the others wrote goes to the peers by the chain of
    // their additions.
    PK_DEVICE void finish_unit(std::uint32_t of, std::uint32_t units_of_block) {
        mover_.settle();
        __syncwarp();
        if (lane_ != 0) return;
        const Arguments& a = block_.a;
        if (ptx::add_acq_rel_system(a.gathered_counts + of, 1) != units_of_block - 1) return;
        a.gathered_counts[of] = 0;
        to_peers([&](std::uint32_t peer) {
            signal(block_.flags(peer, a.workspace.gathered_flags) + a.rank * a.workspace.blocks + of,
                   block_.epoch);
        });
    }

    // Tiles in the order in which the consumers hand them on: of those that other ranks own, the summand in
    // the staging to the owner; of an all-reduce the block's own, from the output to everybody's.
    PK_DEVICE void push_tiles() {
        auto& barriers = block_.barriers();
        RingPlace<L::staging_slots> slot;
        block_.each_tile([&](const Tile& tile) {
            const bool own = block_.is_own(tile);
            if (tile.rows == 0 || (own && C::reduce != Reduce::all)) return;
            const bool there =
                block_.wait_all(barriers.staged_full[slot.index], slot.parity, Wait::staged_full, slot.index);
            if (!there) return;
            if (own) {
                push_sum(tile);
            } else {
                push_summand(tile, block_.staged(block_.sm, slot.index));
            }
            mover_.settle();
            __syncwarp();
            if (lane_ == 0) {
                ptx::mbarrier_arrive(&barriers.staged_free[slot.index]);
                if (!own) signal(block_.partial_flag(tile, block_.a.rank, number_), block_.epoch);
            }
            slot.advance();
        });
    }

    // inter_sm: the same of the blocks that this agent serves, each agents() further than the one before:
    // every block's first tile, then every block's second. That is the order in which the rank has its tiles,
    // so what a tile waits for never comes after it.
    PK_DEVICE void push_tiles_of_blocks() {
        const std::uint32_t computing = block_.computing(), places = block_.order.count();
        std::uint32_t nth = 1;
        for (std::uint32_t first = 0; first < places; first += computing / members, ++nth) {
            for (std::uint32_t of = agent_; of < computing; of += agents()) {
                const std::uint32_t place = first + of / members;
                if (place < places) push_tile_of(of, nth, block_.order.at(place, of % members));
            }
        }
    }

    // The nth tile of a block. Acquires what its consumers released; and what all lanes have read is released
    // to them, so that they may write to the place again. Tiles without rows only count. A rank's own
    // tiles come last, so nobody waits for the counts of those that it keeps.
    PK_DEVICE void push_tile_of(std::uint32_t of, std::uint32_t nth, const Tile& tile) {
        const bool own = block_.is_own(tile);
        if (own && C::reduce != Reduce::all) return;
        Tallies& tallies = block_.a.tallies[of];
        const std::uint64_t now = tally(block_.epoch, nth);
        if (tile.rows != 0) {
            const std::uint32_t slot = (nth - 1) % L::staging_slots, place = of * L::staging_slots + slot;
            const bool there = block_.patience.until_all(
                [&](std::uint32_t& seen) { return look_at_tally(&tallies.staged, now, seen); },
                Wait::staged_full, place, block_.a.rank, nth);
            if (!there) return;
            if (own) {
                push_sum(tile);
            } else {
                push_summand(tile, block_.staged(of, slot));
            }
            mover_.settle();
            __syncwarp();
        }
        if (lane_ != 0 || block_.patience.gone()) return;
        if (tile.rows != 0 && !own) signal(block_.partial_flag(tile, block_.a.rank, number_), block_.epoch);
        store_release(&tallies.pushed[number_], now);
    }

    // A third of it by each pusher.
    PK_DEVICE void push_summand(const Tile& tile, const unsigned char* from) {
        unsigned char* to = block_.partial(tile, block_.a.rank);
        constexpr std::uint32_t all = L::staged_bytes / 16, part = (all / pushers + 255) / 256 * 256;
        const std::uint32_t begin = number_ * part, end = begin + part < all ? begin + part : all;
        mover_.move(
            1, end - begin, [&](std::uint32_t) { return from + begin * 16; },
            [&](std::uint32_t, auto store) { store(to + begin * 16); });
    }

    // Every third row by each pusher. Peers have begun the call, as each has sent its summand of the tile,
    // which the consumers have acquired: so what was in their outputs is not needed any more.
    PK_DEVICE void push_sum(const Tile& tile) {
        const Arguments& a = block_.a;
        const std::uint32_t left = a.n - tile.column, columns = left < L::tile_n ? left : L::tile_n;
        const std::uint32_t of_row = columns / 8, rows = (tile.rows + pushers - 1 - number_) / pushers;
        const auto place = [&](void* out, std::uint32_t run) {
            const std::uint64_t row = std::uint64_t{tile.row} + run * pushers + number_;
            return static_cast<unsigned char*>(out) + (row * a.out_stride + tile.column) * 2;
        };
        mover_.move(
            rows, of_row, [&](std::uint32_t run) { return place(a.outs[a.rank], run); },
            [&](std::uint32_t run, auto store) {
                to_peers([&](std::uint32_t peer) { store(place(a.outs[peer], run)); });
            });
    }

    // This pusher has pushed all its sums; and so have its like at the other ranks, whose agents are as many.
    PK_DEVICE void exchange_ends() {
        const Arguments& a = block_.a;
        const std::uint32_t mine = agent_ * pushers + number_, all = agents() * pushers;
        __syncwarp();
        if (lane_ != 0 || block_.patience.gone()) return;
        to_peers([&](std::uint32_t peer) {
            signal(block_.flags(peer, a.workspace.ends) + a.rank * all + mine, block_.epoch);
        });
        to_peers([&](std::uint32_t peer) {
            block_.patience.flag(block_.flags(a.rank, a.workspace.ends) + peer * all + mine, block_.epoch,
                                 Wait::peer_end, mine, peer);
        });
    }

    PK_DEVICE std::uint32_t agents() const { return lcsc::agents<C>(block_.sms); }

    template <class Body>
    PK_DEVICE void to_peers(Body body) {
        const Arguments& a = block_.a;
        for (std::uint32_t n = 1; n < a.world; ++n)
            body(a.rank + n < a.world ? a.rank + n : a.rank + n - a.world);
    }

    static constexpr std::uint32_t unit_pieces = 1024;  // 16 KiB

    Block<C>& block_;
    std::uint32_t agent_, number_, lane_;
    Mover<C> mover_;
    Peers peers_;
};

}  // namespace pk::lcsc
