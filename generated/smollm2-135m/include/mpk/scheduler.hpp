// What happens where an event opens: its just-in-time tasks go to the queue.
#pragma once

#include "mpk/event.hpp"
#include "mpk/queue.hpp"

namespace mpk {

// Hands out the just-in-time tasks of an event that has just opened. A task with nothing to do in this step
// is not queued: its trigger is added at once, unless that could open an event with just-in-time tasks of its
// own; then the task is queued all the same, so that nothing here recurses. All lanes of one warp call, after
// a warp barrier with the lane that opened the event.
template <class Program>
PK_DEVICE void dispatch(const Machine& m, std::uint32_t event) {
    const EventDesc released = m.events[event];
    for (std::uint32_t base = 0; base < released.count; base += pk::warp_lanes) {
        const std::uint32_t task = released.first + base + pk::lane();
        const bool mine = base + pk::lane() < released.count && m.tasks[task].launch == Launch::jit;
        bool queued = false;
        if (mine) {
            const Task& t = m.tasks[task];
            queued = m.events[t.trigger].count != 0 || Program::active(m, t, m.ops[t.op].variant);
        }
        push(m.queue, queued, task);
        if (mine && !queued) trigger(m, m.tasks[task].trigger, 1);
    }
}

// Marks a task done. All lanes of one warp call, after a barrier of the block: the release of the counter is
// cumulative, so it covers what every thread of the block wrote before that barrier.
template <class Program>
PK_DEVICE void complete(const Machine& m, const Task& task) {
    constexpr std::uint32_t none = 0xffffffff;
    std::uint32_t to_dispatch = none;
    // One lane reads the task: it lies where that lane puts the next one.
    if (pk::lane() == 0) {
        const std::uint32_t event = task.trigger;
        if (trigger(m, event, 1) && m.events[event].count != 0) to_dispatch = event;
    }
    to_dispatch = pk::broadcast(to_dispatch, 0);
    if (to_dispatch != none) dispatch<Program>(m, to_dispatch);
}

}  // namespace mpk
