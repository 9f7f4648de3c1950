// What all roles of a block share: the arguments, the epoch, the order of tiles, shared memory, waits.
#pragma once

#include "pk/lcsc/deal.hpp"
#include "pk/lcsc/layout.hpp"
#include "pk/lcsc/patience.hpp"
#include "pk/lcsc/schedule.hpp"
#include "pk/ptx/cluster.hpp"
#include "pk/ptx/dependent_launch.hpp"

namespace pk::lcsc {

template <class C>
struct Block {
    using L = Layout<C>;

    const Arguments& a;
    std::uint32_t sm, sms;
    std::uint32_t epoch;  // of this call, from 1 on
    TileOrder order;
    Deal deal;
    unsigned char* memory;  // the ring, the movers' buffers, the barriers
    Patience patience;

    PK_DEVICE Block(const Arguments& arguments, unsigned char* its_memory, std::uint32_t number,
                    std::uint32_t count)
        : a(arguments),
          sm(number),
          sms(count),
          epoch(has_epoch(a) ? load_relaxed(&arguments.state->epoch) + 1 : 0),
          order(a.shards, a.world, C::silu_mul ? a.n * 2 : a.n, L::grid(),
                C::reduce == Reduce::none ? a.rank : (a.rank + 1) % a.world),
          deal(order.count(), divide_up(a.k, L::tile_k), computing() / members, a.sharing),
          memory(its_memory),
          patience(a, number, has_epoch(a) && failed_before(a)) {}

    PK_DEVICE std::uint32_t member() const { return sm % members; }
    PK_DEVICE std::uint32_t worker() const { return sm / members; }
    // Blocks that compute: the first ones.
    PK_DEVICE std::uint32_t computing() const { return sms - communicating<C>(sms, members); }
    PK_DEVICE bool communicates() const { return inter_sm<C> && sm >= computing(); }
    // body(tile, part): what this block computes, in order; some tiles have no rows.
    template <class Body>
    PK_DEVICE void each_part(Body body) const {
        deal.each_part(worker(), [&](const Part& part) { body(order.at(part.place, member()), part); });
    }
    // The tiles that it finishes.
    template <class Body>
    PK_DEVICE void each_tile(Body body) const {
        each_part([&](const Tile& tile, const Part& part) {
            if (part.finishes) body(tile);
        });
    }
    // Calls with an epoch begin when those before have ended.
    PK_DEVICE static bool has_epoch(const Arguments& a) { return over_ranks<C> || a.sharing != 0; }
    // Before memory is used that launches before this one may have written or still read. Where the epoch is
    // among that, the kernel has waited at the beginning; else each role does where it needs to.
    PK_DEVICE void wait_for_memory() const {
        if constexpr (!over_ranks<C>) ptx::wait_for_launches_before();
    }
    PK_DEVICE bool is_own(const Tile& tile) const { return tile.owner == a.rank; }

    PK_DEVICE typename L::Barriers& barriers() const { return L::barriers(memory); }
    PK_DEVICE std::uint32_t parity() const { return epoch & 1; }
    PK_DEVICE std::uint32_t* flags(std::uint32_t rank, std::uint64_t place) const {
        return a.flags(rank, place);
    }
    PK_DEVICE unsigned char* staged(std::uint32_t of, std::uint32_t slot) const {
        const std::uint64_t at = std::uint64_t{of} * L::staging_slots + slot;
        return reinterpret_cast<unsigned char*>(a.staging) + at * L::staged_bytes;
    }
    // Where a block puts the sums of a part in which it helps.
    PK_DEVICE unsigned char* part_of(std::uint32_t block) const {
        return reinterpret_cast<unsigned char*>(a.parts) + std::uint64_t{block} * L::sums_bytes;
    }
    // A summand of rank `source` in the workspace of the tile's owner.
    PK_DEVICE unsigned char* partial(const Tile& tile, std::uint32_t source) const {
        const std::uint64_t other = source < tile.owner ? source : source - 1;
        const std::uint64_t at = tile.slot * std::uint64_t{a.world - 1} + other;
        return reinterpret_cast<unsigned char*>(a.peers[tile.owner]) + a.workspace.partials[parity()] +
               at * L::staged_bytes;
    }
    PK_DEVICE std::uint32_t* partial_flag(const Tile& tile, std::uint32_t source,
                                          std::uint32_t pusher) const {
        return flags(tile.owner, a.workspace.partial_flags) +
               (std::uint64_t{tile.slot} * a.world + source) * pushers + pusher;
    }

    // A phase of a barrier in shared memory: for one thread, and for all lanes of a warp.
    PK_DEVICE bool wait(std::uint64_t& barrier, std::uint32_t phase, Wait what, std::uint32_t index) {
        return patience.until([&](std::uint32_t& seen) { return complete(barrier, phase, seen); }, what,
                              index, a.rank, phase);
    }
    PK_DEVICE bool wait_all(std::uint64_t& barrier, std::uint32_t phase, Wait what, std::uint32_t index) {
        return patience.until_all([&](std::uint32_t& seen) { return complete(barrier, phase, seen); }, what,
                                  index, a.rank, phase);
    }

private:
    PK_DEVICE static bool complete(std::uint64_t& barrier, std::uint32_t phase, std::uint32_t& seen) {
        seen = phase ^ 1;
        return ptx::mbarrier_try_wait(&barrier, phase);
    }
};

}  // namespace pk::lcsc
