// The queue of just-in-time tasks: many givers, many takers. A taker first takes one off `ready`, which
// settles at once who gets a task however many look at the same time, and then owns the next ticket.
// The queue cannot overflow: its capacity is that of all just-in-time tasks of one step, and a step's tasks
// are taken before the next step begins.
#pragma once

#include "mpk/machine.hpp"
#include "mpk/watchdog.hpp"
#include "pk/platform/atomic.hpp"
#include "pk/platform/block.hpp"
#include "pk/platform/clock.hpp"

namespace mpk {

// Puts this lane's task in the queue if `give` is set. All lanes of one warp call.
PK_DEVICE void push(const Queue& queue, bool give, std::uint32_t task) {
    const std::uint32_t givers = pk::ballot(give);
    if (givers == 0) return;
    const std::uint32_t count = pk::count_bits(givers);
    std::uint32_t first = 0;
    if (pk::lane() == 0) first = pk::add_relaxed(queue.tail, count);
    first = pk::broadcast(first, 0);
    if (give) {
        const std::uint32_t before = givers & ((1u << pk::lane()) - 1);
        const std::uint32_t ticket = first + pk::count_bits(before);
        // Release: the taker sees all that the giver saw when the task's event opened.
        pk::store_release(&queue.slots[ticket & (queue.capacity - 1)],
                          std::uint64_t{ticket + 1} << 32 | task);
    }
    pk::sync_warp();
    // Relaxed: a taker finds its task by the ticket in the slot, not by this count.
    if (pk::lane() == 0) pk::add_relaxed(queue.ready, static_cast<std::int32_t>(count));
}

// Whether a take may succeed.
PK_DEVICE bool may_take(const Queue& queue) {
    return pk::load_relaxed(queue.ready) > 0;
}

// Takes a task if there is one. One thread calls; `wait` is what its worker waits for meanwhile.
PK_DEVICE bool take(const Machine& m, std::uint32_t worker, const Wait& wait, std::uint32_t& task) {
    const Queue& queue = m.queue;
    if (pk::add_relaxed(queue.ready, std::int32_t{-1}) <= 0) {
        pk::add_relaxed(queue.ready, std::int32_t{1});
        return false;
    }
    const std::uint32_t ticket = pk::add_relaxed(queue.head, 1u);
    const std::uint64_t* slot = &queue.slots[ticket & (queue.capacity - 1)];
    // Another giver may hold this ticket and be about to fill the slot: it waits for nothing before it does.
    for (Watchdog watchdog(m.timeout_ns);;) {
        const std::uint64_t value = pk::load_acquire(slot);
        if (static_cast<std::uint32_t>(value >> 32) == ticket + 1) {
            task = static_cast<std::uint32_t>(value);
            return true;
        }
        const auto seen = static_cast<std::uint32_t>(value >> 32);
        if (watchdog.expired(seen)) report_timeout(m, worker, wait, seen);
        if (failed(m)) return false;
        pk::pause(watchdog.polls());
    }
}

}  // namespace mpk
