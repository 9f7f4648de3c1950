// What a rank and its peers tell each other of a call as a whole: that it has begun, and with what; and that
// it has ended. By one warp, unless said.
#pragma once

#include "pk/lcsc/arguments.hpp"
#include "pk/lcsc/patience.hpp"
#include "pk/ptx/system_memory.hpp"

namespace pk::lcsc {

class Peers {
public:
    PK_DEVICE Peers(const Arguments& a, Patience& patience, std::uint32_t epoch, std::uint32_t lane)
        : a_(a), patience_(patience), epoch_(epoch), lane_(lane) {}

    // The buffers of this parity were last read in the call before the last; what the copy engine writes to
    // (where rows are gathered), in the last call, if that used it.
    PK_DEVICE bool wait_for_buffers(bool gather) {
        const std::uint32_t read = epoch_ - (gather && load_relaxed(&a_.state->copied) == epoch_ - 1 ? 1 : 2);
        bool there = true;
        for (std::uint32_t r = lane_; r < a_.world; r += 32) {
            there = there && patience_.flag(a_.done(a_.rank, r), read, Wait::peer_done, 0, r);
        }
        return __all_sync(~0u, there);
    }

    // With what this rank was called, to all. Two places in turns are enough, as the peers have ended the
    // call before the last.
    PK_DEVICE void show_card() {
        if (lane_ >= a_.world) return;
        store_relaxed(a_.card_at(lane_, epoch_, a_.rank), a_.card);
        signal(a_.begun(lane_, a_.rank), epoch_);
    }

    // So a call ends when all ranks have begun it, and says so if one of them was called with something else.
    PK_DEVICE void compare_cards() {
        if (lane_ >= a_.world) return;
        const bool there = patience_.flag(a_.begun(a_.rank, lane_), epoch_, Wait::peer_begun, 0, lane_);
        if (there) patience_.agree(a_.card, load_relaxed(a_.card_at(a_.rank, epoch_, lane_)), lane_);
    }

private:
    const Arguments& a_;
    Patience& patience_;
    std::uint32_t epoch_, lane_;
};

// By one thread of each of `blocks` blocks, after a barrier of all its threads. The last block to finish ends
// the call: all blocks have read what peers sent, so they may send again.
PK_DEVICE void end_call(const Arguments& a, std::uint32_t epoch, std::uint32_t blocks) {
    if (ptx::add_acq_rel_system(&a.state->finished, 1) != blocks - 1) return;
    a.state->finished = 0;
    if (load_relaxed(&a.state->failed) != 0) return;
    if (a.copied) a.state->copied = epoch;
    a.state->epoch = epoch;
    for (std::uint32_t r = 0; r < a.world; ++r) signal(a.done(r, a.rank), epoch);
}

}  // namespace pk::lcsc
