// Bounded waits. A wait that runs out writes the report, if it is the first of its device; then every other
// wait of the device ends too, and every role leaves.
#pragma once

#include "pk/lcsc/call.hpp"
#include "pk/platform/atomic.hpp"
#include "pk/platform/clock.hpp"
#include "pk/primitives/flags.hpp"

namespace pk::lcsc {

// Whether the run before this one failed.
PK_DEVICE bool failed_before(const Call& a) {
    return load_relaxed(&a.state->failed) != 0;
}

class Patience {
public:
    // gone: in a run that was enqueued behind one that failed, nobody waits from the beginning: it must not
    // send what peers that are late would take for the failed run's.
    PK_DEVICE Patience(const Call& a, std::uint32_t sm, bool gone) : a_(a), sm_(sm), gone_(gone) {}
    PK_DEVICE Patience(const Call& a, std::uint32_t sm) : Patience(a, sm, failed_before(a)) {}

    // A wait of this thread has ended without what it was for. From then on none waits: the thread runs on to
    // the end, and hands nothing on.
    PK_DEVICE bool gone() const { return gone_; }

    // Until `test(seen)` holds, which says what it saw. False if it never does.
    template <class Test>
    PK_DEVICE bool until(Test test, Wait wait, std::uint32_t index, std::uint32_t source,
                         std::uint32_t expected) {
        std::uint32_t seen = 0;
        std::uint64_t began = 0;  // at the first look at the clock
        for (std::uint32_t polls = 1; !gone_ && !test(seen); ++polls) {
            pause(polls);
            if (polls % look_interval == 0) look_around(began, wait, index, source, expected, seen);
        }
        return !gone_;
    }

#if PK_CUDA
    // The same by all lanes of a warp, which go on together: so the compiler knows that they do.
    template <class Test>
    PK_DEVICE bool until_all(Test test, Wait wait, std::uint32_t index, std::uint32_t source,
                             std::uint32_t expected) {
        std::uint32_t seen = 0;
        std::uint64_t began = 0;
        for (std::uint32_t polls = 1; !__all_sync(~0u, gone_ || test(seen)); ++polls) {
            pause(polls);
            if (polls % look_interval == 0) look_around(began, wait, index, source, expected, seen);
        }
        return !__any_sync(~0u, gone_);
    }
#endif

    // wait: until a flag has reached an epoch; acquires.
    PK_DEVICE bool flag(const std::uint32_t* flag, std::uint32_t epoch, Wait wait, std::uint32_t index,
                        std::uint32_t source) {
        return until(
            [&](std::uint32_t& seen) {
                seen = look(flag);
                return reached(seen, epoch);
            },
            wait, index, source, epoch);
    }

    // What ranks must agree on, and a peer does not: as a wait that has run out.
    PK_DEVICE bool agree(std::uint32_t expected, std::uint32_t seen, std::uint32_t source) {
        if (seen == expected) return true;
        give_up(Wait::differs, 0, source, expected, seen);
        return false;
    }

    // Who has given up leaves before what was asked for has come: shared memory must outlive it.
    PK_DEVICE void outlive_copies() const {
        if (!gone_) return;
        constexpr std::uint64_t copies_take_ns = 100'000;
        for (const std::uint64_t began = now_ns(); now_ns() - began < copies_take_ns;) {
        }
    }

private:
    static constexpr std::uint32_t look_interval = 256;

    PK_DEVICE void look_around(std::uint64_t& began, Wait wait, std::uint32_t index, std::uint32_t source,
                               std::uint32_t expected, std::uint32_t seen) {
        const std::uint64_t now = now_ns();
        if (began == 0) began = now;
        gone_ = load_relaxed(&a_.state->failed) != 0;
        if (!gone_ && now - began >= a_.timeout_ns * timeouts(wait))
            give_up(wait, index, source, expected, seen);
    }

    PK_DEVICE void give_up(Wait wait, std::uint32_t index, std::uint32_t source, std::uint32_t expected,
                           std::uint32_t seen) {
        gone_ = true;
        if (compare_exchange_relaxed(&a_.state->failed, 0u, 1u) != 0) return;
        *a_.report = {1, a_.rank, sm_, static_cast<std::uint32_t>(wait), index, source, expected, seen};
        if (wait != Wait::differs) blame_who_differs();
        store_release_system(&a_.report->state, 2u);
    }

    // Ranks that were called with something else wait for each other in vain: then that is what is said.
    PK_DEVICE void blame_who_differs() const {
        const std::uint32_t epoch = load_relaxed(&a_.state->epoch) + 1;
        PK_ROLLED
        for (std::uint32_t r = 0; r < a_.world; ++r) {
            if (r == a_.rank || look(a_.begun(a_.rank, r)) != epoch) continue;
            const std::uint32_t card = load_relaxed(a_.card_at(a_.rank, epoch, r));
            if (card == a_.card) continue;
            a_.report->wait = static_cast<std::uint32_t>(Wait::differs);
            a_.report->index = 0;
            a_.report->source = r;
            a_.report->expected = a_.card;
            a_.report->seen = card;
            return;
        }
    }

    const Call& a_;
    std::uint32_t sm_;
    bool gone_;
};

}  // namespace pk::lcsc
