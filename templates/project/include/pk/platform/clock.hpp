// Time, and what to do between two polls of the same word.
#pragma once

#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/ptx/timer.hpp"
#else
#include <chrono>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#endif

namespace pk {

#if PK_CUDA

PK_DEVICE std::uint64_t now_ns() {
    return ptx::global_timer();
}
PK_DEVICE void pause(std::uint32_t) {
    ptx::poll_pause();
}

// A clock of this SM alone, finer than now_ns; its rate is that of the SM.
PK_DEVICE std::uint64_t ticks() {
    return ptx::sm_clock();
}

#else

inline std::uint64_t now_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

inline std::uint64_t ticks() {
    return now_ns();
}

// `polls` counts the polls of this wait. There may be more threads than cores, so a long wait gives its core
// away.
inline void pause(std::uint32_t polls) {
    constexpr std::uint32_t spins = 256;
    if (polls >= spins) {
        std::this_thread::yield();
        return;
    }
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
}

#endif

}  // namespace pk
