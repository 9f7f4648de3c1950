// The host twin of what a rank and its peers tell each other of a call as a whole (peers.hpp), by one thread.
#pragma once

#include "pk/lcsc/arguments.hpp"
#include "pk/lcsc/host_protocol.hpp"

namespace pk::lcsc {

class HostPeers {
public:
    HostPeers(const Arguments& a, std::uint32_t epoch, Patience& patience)
        : a_(a), epoch_(epoch), patience_(patience) {}

    // The buffers of this parity were last read in the call before the last; what the copy engine writes to,
    // in the last call, if that used it.
    bool wait_for_buffers() {
        return wait_done(load_relaxed(&a_.state->copied) == epoch_ - 1 ? epoch_ - 1 : epoch_ - 2);
    }
    bool wait_done(std::uint32_t epoch) {
        bool free = true;
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            const std::uint32_t* flag = a_.done(a_.rank, r);
            free = free && wait_step<Step::wait_done, Step::acquire_done>(patience_, flag, epoch,
                                                                          Wait::peer_done, 0, r);
        }
        return free;
    }

    // With what this rank was called, to all. A kernel without a collective is alone.
    void show_card() {
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            store_relaxed(a_.card_at(r, epoch_, a_.rank), a_.card);
            signal(a_.begun(r, a_.rank), epoch_);
        }
    }

    // So a call ends when all ranks have begun it, and says so if one of them was called with something else.
    void compare_cards() {
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            const std::uint32_t* flag = a_.begun(a_.rank, r);
            if (patience_.flag(flag, epoch_, Wait::peer_begun, 0, r))
                patience_.agree(a_.card, load_relaxed(a_.card_at(a_.rank, epoch_, r)), r);
        }
    }

    // The last thread to finish ends the call: all have read what peers sent, so they may send again.
    void end_call(std::uint32_t threads) {
        if (!is_last<Step::order_finished, Step::reset_finished>(&a_.state->finished, threads)) return;
        if (load_relaxed(&a_.state->failed) != 0) return;
        if (a_.copied) store_relaxed(&a_.state->copied, epoch_);
        if (kept(Step::advance_epoch)) store_relaxed(&a_.state->epoch, epoch_);
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            signal_step<Step::signal_done, Step::release_done>(a_.done(r, a_.rank), epoch_);
        }
    }

private:
    const Arguments& a_;
    std::uint32_t epoch_;
    Patience& patience_;
};

}  // namespace pk::lcsc
