// The token rows of a task in this step.
#pragma once

#include "mpk/context.hpp"

namespace mpk::tasks {

// A task covers the rows [task.begin, task.end) of a plan made for m.rows; a step may carry fewer.
PK_DEVICE std::uint32_t last_row(const Context& ctx) {
    const std::uint32_t count = *ctx.machine.step.row_count;
    return ctx.task.end < count ? ctx.task.end : count;
}

// What most tasks say about a step that leaves them nothing to do: run all the same.
struct AlwaysActive {
    PK_DEVICE static bool active(const Machine&, const Task&) { return true; }
};

}  // namespace mpk::tasks
