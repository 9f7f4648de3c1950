// The communicator: agents of three warps each, the pushers, that bring rows and tiles to peers while others
// compute: those of the same block, or other blocks (schedule.hpp). Peers are only ever written to: a store
// needs no answer, a load waits for one.
#pragma once

#include "pk/lcsc/block.hpp"
#include "pk/lcsc/tally.hpp"
#include "pk/ptx/system_memory.hpp"

namespace pk::lcsc {

template <class C>
class Pusher {
    using L = Layout<C>;

public:
    // `number`: within the agent.
    PK_DEVICE Pusher(Block<C>& block, std::uint32_t agent, std::uint32_t number, std::uint32_t lane)
        : block_(block), agent_(agent), number_(number), lane_(lane) {}

    PK_DEVICE void run() {
        const bool first = agent_ == 0 && number_ == 0;
        if (!block_.a.copied && !wait_for_peers()) return;
        if (first) show_card();
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
        if (first) compare_cards();
    }

private:
    // The buffers of this parity were last read in the call before the last; what the copy engine writes to,
    // in the last call, if that used it.
    PK_DEVICE bool wait_for_peers() {
        const bool copied = C::gather && block_.a.state->copied == block_.epoch - 1;
        return wait_ranks(block_.a.workspace.done, Wait::peer_done, block_.epoch - (copied ? 1 : 2));
    }

    // With what this rank was called, to all. Two places in turns are enough, as the peers have ended the
    // call before the last.
    PK_DEVICE void show_card() {
        const Arguments& a = block_.a;
        if (lane_ >= a.world) return;
        store_relaxed(block_.flags(lane_, a.workspace.cards) + block_.parity() * a.world + a.rank, a.card);
        signal(block_.flags(lane_, a.workspace.begun) + a.rank, block_.epoch);
    }

    // So a call ends when all ranks have begun it, and says so if one of them was called with something else.
    PK_DEVICE void compare_cards() {
        const Arguments& a = block_.a;
        if (lane_ >= a.world) return;
        const bool there = block_.patience.flag(block_.flags(a.rank, a.workspace.begun) + lane_, block_.epoch,
                                                Wait::peer_begun, 0, lane_);
        const std::uint32_t* cards = block_.flags(a.rank, a.workspace.cards) + block_.parity() * a.world;
        if (there) block_.patience.agree(a.card, load_relaxed(cards + lane_), lane_);
    }

    // Until every rank has set its flag of the kind at `place`; all lanes.
    PK_DEVICE bool wait_ranks(std::uint64_t place, Wait what, std::uint32_t epoch) {
        bool there = true;
        for (std::uint32_t r = lane_; r < block_.a.world; r += 32) {
            there = there && block_.patience.flag(block_.flags(block_.a.rank, place) + r, epoch, what, 0, r);
        }
        return __all_sync(~0u, there);
    }

    // all-gather: this rank's rows to every peer. Units of some rows go round the pushers of all agents, in
    // order, so that the first rows arrive first.
    PK_DEVICE void push_rows() {
        const Arguments& a = block_.a;
        const std::uint32_t rows = a.shards.count(a.rank), pieces = a.k / 8;  // of 16 bytes
        const std::uint32_t unit_rows = pieces < unit_pieces ? unit_pieces / pieces : 1;
        const std::uint32_t units_of_block = divide_up(L::tile_m, unit_rows);
        const std::uint32_t units = divide_up(rows, L::tile_m) * units_of_block;
        for (std::uint32_t u = agent_ * pushers + number_; u < units; u += agents() * pushers) {
            const std::uint32_t of = u / units_of_block, at = of * L::tile_m;
            const std::uint32_t end = rows - at < L::tile_m ? rows : at + L::tile_m;
            const std::uint32_t begin = at + u % units_of_block * unit_rows;
            for (std::uint32_t row = begin; row < end && row < begin + unit_rows; ++row) {
                const auto* from =
                    static_cast<const unsigned char*>(a.shard) + std::uint64_t{row} * a.shard_stride * 2;
                const std::uint64_t to = a.workspace.gathered[block_.parity()] +
                                         (std::uint64_t{a.shards.begin(a.rank)} + row) * a.k * 2;
                copy(
                    pieces, [&](std::uint32_t at) { return from + std::uint64_t{at} * 16; },
                    [&](std::uint32_t at, uint4 v) {
                        to_peers([&](std::uint32_t peer) {
                            ptx::store_16(a.peers[peer] + to + std::uint64_t{at} * 16, v);
                        });
                    });
            }
            finish_unit(of, units_of_block);
        }
    }

    // The last of a block's units signals the block. What the others wrote goes to the peers by the chain of
    // their additions.
    PK_DEVICE void finish_unit(std::uint32_t of, std::uint32_t units_of_block) {
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
        copy(
            end - begin, [&](std::uint32_t at) { return from + (begin + at) * 16; },
            [&](std::uint32_t at, uint4 v) { ptx::store_16(to + (begin + at) * 16, v); });
    }

    // Every third row by each pusher. Peers have begun the call, as each has sent its summand of the tile,
    // which the consumers have acquired: so what was in their outputs is not needed any more.
    PK_DEVICE void push_sum(const Tile& tile) {
        const Arguments& a = block_.a;
        const std::uint32_t left = a.n - tile.column, columns = left < L::tile_n ? left : L::tile_n;
        const std::uint32_t of_row = columns / 8, rows = (tile.rows + pushers - 1 - number_) / pushers;
        const auto place = [&](std::uint32_t at) {
            const std::uint64_t row = tile.row + at / of_row * pushers + number_;
            return (row * a.out_stride + tile.column + at % of_row * 8) * 2;
        };
        copy(
            rows * of_row,
            [&](std::uint32_t at) { return static_cast<const unsigned char*>(a.outs[a.rank]) + place(at); },
            [&](std::uint32_t at, uint4 v) {
                to_peers([&](std::uint32_t peer) {
                    ptx::store_16(static_cast<unsigned char*>(a.outs[peer]) + place(at), v);
                });
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

    // Pieces of 16 bytes, from(n) of this device and then store(n, piece), by all lanes.
    template <class From, class Store>
    PK_DEVICE void copy(std::uint32_t pieces, From from, Store store) {
        std::uint32_t at = lane_;
        for (; at + (ahead - 1) * 32 < pieces; at += ahead * 32) {
            uint4 v[ahead];
            keep_pace();
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) v[n] = ptx::load_past_l1(from(at + n * 32));
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) store(at + n * 32, v[n]);
        }
        for (; at < pieces; at += 32) store(at, ptx::load_past_l1(from(at)));
    }

    // Before a batch: its time. Stores that find the link full stand in the way of the loads of their SM, so
    // they are spread evenly.
    PK_DEVICE void keep_pace() {
        if (block_.a.pace == 0) return;
        std::uint64_t now = ticks();
        while (static_cast<std::int64_t>(now - next_) < 0) now = ticks();
        next_ = (static_cast<std::int64_t>(now - next_) < block_.a.pace ? next_ : now) + block_.a.pace;
    }

    static constexpr std::uint32_t ahead = 8;           // loads under way of each lane
    static constexpr std::uint32_t unit_pieces = 1024;  // 16 KiB

    Block<C>& block_;
    std::uint32_t agent_, number_, lane_;
    std::uint64_t next_ = 0;
};

}  // namespace pk::lcsc
