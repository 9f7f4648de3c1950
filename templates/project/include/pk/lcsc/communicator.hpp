// The communicator: three warps, the pushers, that bring rows and tiles to peers while the others of the
// block compute. Peers are only ever written to: a store needs no answer, a load waits for one.
#pragma once

#include "pk/lcsc/mover.hpp"

namespace pk::lcsc {

template <class C>
class Pusher {
    using L = Layout<C>;

public:
    PK_DEVICE Pusher(Block<C>& block, std::uint32_t number, std::uint32_t lane)
        : block_(block), number_(number), lane_(lane), mover_(block, number, lane) {}

    PK_DEVICE void run() {
        if (!begin()) return;
        if constexpr (C::gather) {
            if (!block_.a.copied) push_rows();
        }
        if constexpr (C::reduce != Reduce::none) push_tiles();
        if constexpr (C::reduce == Reduce::all) exchange_ends();
        end();
    }

    PK_DEVICE bool begin() {
        if (!block_.a.copied && !wait_for_peers()) return false;
        if (is_first()) show_card();
        return true;
    }
    PK_DEVICE void end() {
        if (is_first()) compare_cards();
    }

    // all-gather of so few rows that they are sent in parts, to this rank too: as number `agent` of `agents`
    // warps. The last signals, as in finish_unit.
    PK_DEVICE void push_few_rows(std::uint32_t agent, std::uint32_t agents) {
        const Arguments& a = block_.a;
        const std::uint32_t pieces = a.k / 8;
        const std::uint64_t all = std::uint64_t{a.shards.count(a.rank)} * pieces;
        constexpr std::uint32_t part = 256;
        const auto parts = static_cast<std::uint32_t>((all + part - 1) / part);
        const auto* from = static_cast<const unsigned char*>(a.shard);
        const std::uint64_t to =
            a.workspace.gathered[block_.parity()] + std::uint64_t{a.shards.begin(a.rank)} * a.k * 2;
        for (std::uint32_t p = agent; p < parts; p += agents) {
            const std::uint64_t begin = std::uint64_t{p} * part, left = all - begin;
            mover_.move(
                left < part ? static_cast<std::uint32_t>(left) : part, 1,
                [&](std::uint32_t run) {
                    const std::uint64_t row = (begin + run) / pieces, at = (begin + run) % pieces;
                    return from + row * a.shard_stride * 2 + at * 16;
                },
                [&](std::uint32_t run, auto store) {
                    for (std::uint32_t r = 0; r < a.world; ++r)
                        store(reinterpret_cast<unsigned char*>(a.peers[r]) + to + (begin + run) * 16);
                });
            mover_.settle();
            __syncwarp();
            if (lane_ != 0 || ptx::add_acq_rel_system(a.gathered_counts, 1) != parts - 1) continue;
            a.gathered_counts[0] = 0;
            for (std::uint32_t r = 0; r < a.world; ++r) {
                signal(block_.flags(r, a.workspace.gathered_flags) + a.rank * a.workspace.blocks,
                       block_.epoch);
            }
        }
    }

private:
    PK_DEVICE bool is_first() const { return block_.sm == 0 && number_ == 0; }

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

    // all-gather: this rank's rows to every peer. Units of some rows go round the pushers of all blocks, in
    // order, so that the first rows arrive first.
    PK_DEVICE void push_rows() {
        const Arguments& a = block_.a;
        const std::uint32_t rows = a.shards.count(a.rank), pieces = a.k / 8;  // of 16 bytes
        const std::uint32_t unit_rows = pieces < unit_pieces ? unit_pieces / pieces : 1;
        const std::uint32_t units_of_block = divide_up(L::tile_m, unit_rows);
        const std::uint32_t units = divide_up(rows, L::tile_m) * units_of_block;
        for (std::uint32_t u = block_.sm * pushers + number_; u < units; u += block_.sms * pushers) {
            const std::uint32_t of = u / units_of_block, at = of * L::tile_m;
            const std::uint32_t end = rows - at < L::tile_m ? rows : at + L::tile_m;
            const std::uint32_t begin = at + u % units_of_block * unit_rows;
            const std::uint32_t count = end < begin + unit_rows ? end - begin : unit_rows;
            const std::uint64_t to = a.workspace.gathered[block_.parity()] +
                                     (std::uint64_t{a.shards.begin(a.rank)} + begin) * a.k * 2;
            const auto* from = static_cast<const unsigned char*>(a.shard);
            mover_.move(
                begin < end ? count : 0, pieces,
                [&](std::uint32_t run) { return from + (std::uint64_t{begin} + run) * a.shard_stride * 2; },
                [&](std::uint32_t run, auto store) {
                    to_peers([&](std::uint32_t peer) {
                        store(reinterpret_cast<unsigned char*>(a.peers[peer]) + to +
                              std::uint64_t{run} * a.k * 2);
                    });
                });
            finish_unit(of, units_of_block);
        }
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
                push_summand(tile, slot.index);
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

    // A third of it by each pusher.
    PK_DEVICE void push_summand(const Tile& tile, std::uint32_t slot) {
        const unsigned char* from = block_.staged(slot);
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

    // This pusher has pushed all its sums; and so have its like at the other ranks, whose blocks are as many.
    PK_DEVICE void exchange_ends() {
        const Arguments& a = block_.a;
        const std::uint32_t mine = block_.sm * pushers + number_, all = block_.sms * pushers;
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

    template <class Body>
    PK_DEVICE void to_peers(Body body) {
        const Arguments& a = block_.a;
        for (std::uint32_t n = 1; n < a.world; ++n)
            body(a.rank + n < a.world ? a.rank + n : a.rank + n - a.world);
    }

    static constexpr std::uint32_t unit_pieces = 1024;  // 16 KiB

    Block<C>& block_;
    std::uint32_t number_, lane_;
    Mover<C> mover_;
};

// The last block to finish ends the call: all blocks have read what peers sent, so they may send again.
template <class C>
PK_DEVICE void end_call(const Block<C>& block) {
    const Arguments& a = block.a;
    if (ptx::add_acq_rel_system(&a.state->finished, 1) != block.sms - 1) return;
    a.state->finished = 0;
    if (load_relaxed(&a.state->failed) != 0) return;
    if (a.copied) a.state->copied = block.epoch;
    a.state->epoch = block.epoch;
    for (std::uint32_t r = 0; r < a.world; ++r) {
        signal(block.flags(r, a.workspace.done) + a.rank, block.epoch);
    }
}

}  // namespace pk::lcsc
