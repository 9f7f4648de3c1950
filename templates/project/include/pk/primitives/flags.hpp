// Flags that ranks set for each other: words of device memory that hold epochs, which only grow, so that
// nothing ever resets them. A flag has one writer.
#pragma once

#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/ptx/system_memory.hpp"
#else
#include "pk/platform/atomic.hpp"
#endif

namespace pk {

// Whether an epoch has been reached; they may wrap around.
PK_HOST_DEVICE constexpr bool reached(std::uint32_t seen, std::uint32_t epoch) {
    return static_cast<std::int32_t>(seen - epoch) >= 0;
}

// signal: releases, at system scope, what this thread wrote and what it has synchronized with, to whoever
// waits for the epoch. Writes in the async proxy (bulk stores) must be complete before.
PK_DEVICE void signal(std::uint32_t* flag, std::uint32_t epoch) {
#if PK_CUDA
    ptx::store_release_system(flag, epoch);
#else
    store_release(flag, epoch);
#endif
}

// One look of a wait: acquires, at system scope, what was released with the value that it sees. Bulk loads
// (async proxy) of it need a fence.proxy.async after this.
PK_DEVICE std::uint32_t look(const std::uint32_t* flag) {
#if PK_CUDA
    return ptx::load_acquire_system(flag);
#else
    return load_acquire(flag);
#endif
}

}  // namespace pk
