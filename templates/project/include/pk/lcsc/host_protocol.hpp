// The operations by which host threads that stand for SMs keep order, one by one: a test is built with
// PK_DROP and run with the number of one in the environment variable of that name, which is then left out; it
// must fail.
#pragma once

#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "pk/lcsc/patience.hpp"
#include "pk/lcsc/tally.hpp"

namespace pk::lcsc {

// signal_*: the store of the epoch. release_*: what orders everything before that store. acquire_*: what
// orders everything after the look that ends a wait.
enum class Step : int {
    nothing,
    wait_done,
    acquire_done,
    order_units,
    reset_units,
    signal_gathered,
    release_gathered,
    wait_gathered,
    acquire_gathered,
    wait_kept,
    acquire_kept,
    signal_partial,
    release_partial,
    wait_partial,
    acquire_partial,
    signal_part,
    release_part,
    wait_part,
    acquire_part,
    order_finished,
    reset_finished,
    advance_epoch,
    signal_done,
    release_done,
    signal_end,
    release_end,
    wait_end,
    acquire_end,
    signal_begun,
    release_begun,
    wait_begun,
    acquire_begun,
    signal_staged,
    release_staged,
    wait_staged,
    acquire_staged,
    signal_pushed,
    release_pushed,
    wait_pushed,
    acquire_pushed,
    count
};

#ifdef PK_DROP
inline const int dropped = [] {
    const char* const number = std::getenv("PK_DROP");
    return number == nullptr ? 0 : std::atoi(number);
}();
inline bool kept(Step step) {
    return dropped != static_cast<int>(step);
}
#else
constexpr bool kept(Step) {
    return true;
}
#endif

template <Step Signal, Step Release>
void signal_step(std::uint32_t* flag, std::uint32_t epoch) {
    if (!kept(Signal)) return;
    if (kept(Release)) {
        signal(flag, epoch);
    } else {
        store_relaxed(flag, epoch);
    }
}

template <Step Waiting, Step Acquire>
bool wait_step(Patience& patience, const std::uint32_t* flag, std::uint32_t epoch, Wait wait,
               std::uint32_t index, std::uint32_t source) {
    if (!kept(Waiting)) return true;
    if (kept(Acquire)) return patience.flag(flag, epoch, wait, index, source);
    const auto seen = [&](std::uint32_t& value) { return reached(value = load_relaxed(flag), epoch); };
    return patience.until(seen, wait, index, source, epoch);
}

// The same with a count, of tiles (tally.hpp).
template <Step Signal, Step Release>
void signal_tally(std::uint64_t* count, std::uint64_t tiles) {
    if (!kept(Signal)) return;
    if (kept(Release)) {
        store_release(count, tiles);
    } else {
        store_relaxed(count, tiles);
    }
}

template <Step Waiting, Step Acquire>
bool wait_tally(Patience& patience, const std::uint64_t* count, std::uint64_t tiles, Wait wait,
                std::uint32_t index, std::uint32_t source) {
    const auto there = [&](std::uint32_t& seen) {
        if (kept(Acquire)) return look_at_tally(count, tiles, seen);
        const std::uint64_t found = load_relaxed(count);
        seen = tiles_seen(found, tiles);
        return reached(found, tiles);
    };
    return !kept(Waiting) || patience.until(there, wait, index, source, static_cast<std::uint32_t>(tiles));
}

// Counts up to `all` and begins again: true for the last.
template <Step Order, Step Reset>
bool is_last(std::uint32_t* counter, std::uint32_t all) {
    const std::uint32_t before = kept(Order) ? add_acq_rel(counter, 1u) : add_relaxed(counter, 1u);
    if (before != all - 1) return false;
    if (kept(Reset)) store_relaxed(counter, 0u);
    return true;
}

// PK_STRAGGLE=seed in the environment of a test: threads sleep now and then, each at times of its own.
class Straggler {
public:
    Straggler(std::uint32_t rank, std::uint32_t sm, std::uint32_t epoch) {
        static const char* const seed = std::getenv("PK_STRAGGLE");
        if (seed == nullptr) return;
        late_ = true;
        const auto start = static_cast<std::uint32_t>(std::strtoul(seed, nullptr, 10));
        random_.seed(((start * 31 + rank) * 1009 + sm) * 65537 + epoch);
    }
    void maybe_sleep() {
        if (!late_ || random_() % often != 0) return;
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % longest_us));
    }

private:
    static constexpr std::uint32_t often = 4, longest_us = 400;
    bool late_ = false;
    std::minstd_rand random_;
};

}  // namespace pk::lcsc
