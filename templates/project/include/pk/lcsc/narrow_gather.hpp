// Few rows to all ranks, before a product of them (narrow.hpp): the protocol of the pushers' rows
// (communicator.hpp), but all consumers of all blocks send, and the rank itself gets its rows, too, so that
// all rows lie together.
#pragma once

#include "pk/lcsc/narrow_exchange.hpp"
#include "pk/lcsc/peers.hpp"
#include "pk/ptx/fence.hpp"

namespace pk::lcsc::narrow {

class FewRows {
public:
    PK_DEVICE FewRows(const Given& given, Patience& patience)
        : a_(given), patience_(patience), epoch_(load_relaxed(&given.state->epoch) + 1) {}

    // By the consumers. The last part that is sent signals: what the others wrote goes to the peers by the
    // chain of their additions.
    PK_DEVICE void send() {
        Peers peers(a_, patience_, epoch_, lane());
        if (!peers.wait_for_buffers(true)) return;
        if (is_first()) peers.show_card();
        const std::uint32_t pieces = a_.k / 8, all = a_.shards.count(a_.rank) * pieces;
        const std::uint32_t parts = (all + part - 1) / part;
        const std::uint32_t agent = blockIdx.x * consumer_warps + threadIdx.x / 32;
        for (std::uint32_t p = agent; p < parts; p += gridDim.x * consumer_warps) {
            send_part(p * part, all, pieces);
            __syncwarp();
            if (lane() != 0 || ptx::add_acq_rel_system(a_.gathered_counts, 1) != parts - 1) continue;
            a_.gathered_counts[0] = 0;
            for (std::uint32_t r = 0; r < a_.world; ++r) signal(flag(r, a_.rank), epoch_);
        }
    }

    // By one thread, before bulk loads of rows: acquires what all ranks have sent, in the generic proxy.
    PK_DEVICE bool wait() {
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            if (a_.shards.count(r) == 0) continue;
            if (!patience_.flag(flag(a_.rank, r), epoch_, Wait::gathered, 0, r)) return false;
        }
        ptx::fence_proxy_async();
        return true;
    }

    // By all threads, when this block has read the rows.
    PK_DEVICE void end() {
        if (is_first()) Peers(a_, patience_, epoch_, lane()).compare_cards();
        __syncthreads();
        if (threadIdx.x == 0) end_call(a_, epoch_, gridDim.x);
    }

private:
    static constexpr std::uint32_t ahead = 8, part = ahead * 32;  // pieces of 16 bytes

    PK_DEVICE static std::uint32_t lane() { return threadIdx.x % 32; }
    PK_DEVICE static bool is_first() { return blockIdx.x == 0 && threadIdx.x < 32; }
    PK_DEVICE std::uint32_t* flag(std::uint32_t rank, std::uint32_t source) const {
        return a_.flags(rank, a_.workspace.gathered_flags) + source * a_.workspace.blocks;
    }

    PK_DEVICE void send_part(std::uint32_t begin, std::uint32_t all, std::uint32_t pieces) const {
        uint4 v[ahead];
        PK_UNROLL
        for (std::uint32_t n = 0; n < ahead; ++n) {
            const std::uint32_t at = begin + n * 32 + lane(), row = at / pieces;
            const auto* from = static_cast<const unsigned char*>(a_.shard) +
                               std::uint64_t{row} * a_.shard_stride * 2 +
                               std::uint64_t{at - row * pieces} * 16;
            if (at < all) v[n] = ptx::load_past_l1(from);
        }
        const std::uint64_t to = a_.workspace.gathered[epoch_ & 1] +
                                 (std::uint64_t{a_.shards.begin(a_.rank)} * pieces + begin + lane()) * 16;
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) {
                if (begin + n * 32 + lane() < all) ptx::store_16(a_.peers[r] + to + n * 512, v[n]);
            }
        }
    }

    const Given& a_;
    Patience& patience_;
    std::uint32_t epoch_;
};

}  // namespace pk::lcsc::narrow
