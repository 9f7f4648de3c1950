// inter_sm: how tiles get from the block that computes them to the agent that pushes them, and places for
// them back: by counts in this rank's own memory.
#pragma once

#include "pk/platform/atomic.hpp"

namespace pk::lcsc {

// A block's first so many tiles, in its order, in the call of an epoch. Counts only grow, also from call to
// call, so nothing ever resets them; epochs may wrap around.
PK_HOST_DEVICE constexpr std::uint64_t tally(std::uint32_t epoch, std::uint32_t tiles) {
    return std::uint64_t{epoch} << 32 | tiles;
}
PK_HOST_DEVICE constexpr bool reached(std::uint64_t seen, std::uint64_t wanted) {
    return static_cast<std::int64_t>(seen - wanted) >= 0;
}

// Of what was seen: tiles of the call that is waited for.
PK_HOST_DEVICE constexpr std::uint32_t tiles_seen(std::uint64_t seen, std::uint64_t wanted) {
    return seen >> 32 == wanted >> 32 ? static_cast<std::uint32_t>(seen) : 0;
}

// One look of a wait: acquires, among the threads of this device, what was released with the count.
PK_DEVICE bool look_at_tally(const std::uint64_t* count, std::uint64_t wanted, std::uint32_t& seen) {
    const std::uint64_t found = load_acquire(count);
    seen = tiles_seen(found, wanted);
    return reached(found, wanted);
}

}  // namespace pk::lcsc
