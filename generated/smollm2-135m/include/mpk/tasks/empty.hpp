// A task without work, which joins or forks events.
#pragma once

#include "mpk/tasks/rows.hpp"

namespace mpk::tasks {

template <class V>
struct Empty : AlwaysActive {
    static constexpr std::uint32_t scratch_bytes = 0;
    PK_DEVICE static void run(Context&) {}
};

}  // namespace mpk::tasks
