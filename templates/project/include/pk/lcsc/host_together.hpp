// The host twin of together.hpp: a thread for each block of threads, the same flags.
#pragma once

#include "pk/lcsc/host_protocol.hpp"
#include "pk/lcsc/moves.hpp"

namespace pk::lcsc {

class HostTogether {
public:
    HostTogether(const Call& m, std::uint32_t sm, std::uint32_t sms)
        : m_(m),
          sm_(sm),
          sms_(sms),
          epoch_(load_relaxed(&m.state->epoch) + 1),
          patience_(m_, sm),
          straggler_(m_.rank, sm, epoch_) {}

    // body(): the part of this thread.
    template <class Body>
    void run(Body body) {
        straggler_.maybe_sleep();
        if (sm_ == 0 && !patience_.gone()) {
            for (std::uint32_t r = 0; r < m_.world; ++r) begin(r);
        }
        bool there = true;
        for (std::uint32_t r = 0; r < m_.world; ++r) {
            there = there && wait_step<Step::wait_begun, Step::acquire_begun>(patience_, m_.begun(m_.rank, r),
                                                                              epoch_, Wait::peer_begun, 0, r);
            const std::uint32_t card = there ? load_relaxed(m_.card_at(m_.rank, epoch_, r)) : m_.card;
            // The first thread may find this run given up when it comes to begin, and the peer should learn
            // why.
            if (card != m_.card) begin(r);
            there = patience_.agree(m_.card, card, r) && there;
        }
        if (there) body();
        straggler_.maybe_sleep();
        finish();
    }

private:
    void begin(std::uint32_t r) {
        store_relaxed(m_.card_at(r, epoch_, m_.rank), m_.card);
        signal_step<Step::signal_begun, Step::release_begun>(m_.begun(r, m_.rank), epoch_);
    }

    // The last thread tells the peers that this rank has ended, and waits until they have.
    void finish() {
        if (!is_last<Step::order_finished, Step::reset_finished>(&m_.state->finished, sms_)) return;
        if (load_relaxed(&m_.state->failed) != 0) return;
        for (std::uint32_t r = 0; r < m_.world; ++r)
            signal_step<Step::signal_done, Step::release_done>(m_.done(r, m_.rank), epoch_);
        for (std::uint32_t r = 0; r < m_.world; ++r) {
            wait_step<Step::wait_done, Step::acquire_done>(patience_, m_.done(m_.rank, r), epoch_,
                                                           Wait::peer_moved, 0, r);
        }
        if (kept(Step::advance_epoch)) store_relaxed(&m_.state->epoch, epoch_);
    }

    const Call& m_;
    std::uint32_t sm_, sms_, epoch_;
    Patience patience_;
    Straggler straggler_;
};

}  // namespace pk::lcsc
