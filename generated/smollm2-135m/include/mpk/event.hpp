// Event counters. They only grow within a call, by exactly `threshold` in each step, so that neither the
// adder nor a waiter needs to know whether others are a step ahead.
#pragma once

#include "mpk/machine.hpp"
#include "pk/platform/atomic.hpp"

namespace mpk {

// The counter from which on an event is open in `step`. Compare with reached(): counters may be further on.
PK_DEVICE std::uint32_t target_of(const Machine& m, std::uint32_t event, std::uint32_t step) {
    return m.events[event].threshold * (event == start_event ? step : step + 1);
}

PK_DEVICE bool reached(std::uint32_t counter, std::uint32_t target) {
    return counter >= target;
}

// Adds `count` and says whether that opened the event for this step.
// acq_rel: what this thread did, or saw through a barrier or an acquire, is seen by whoever sees the counter
// (release, cumulative), and the one who opens the event sees the work of all who triggered before (acquire).
PK_DEVICE bool trigger(const Machine& m, std::uint32_t event, std::uint32_t count) {
    const std::uint32_t threshold = m.events[event].threshold;
    const std::uint32_t before = pk::add_acq_rel(&m.counters[event], count);
    return before / threshold != (before + count) / threshold;
}

}  // namespace mpk
