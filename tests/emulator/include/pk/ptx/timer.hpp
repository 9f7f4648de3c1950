// Takes the place of the project's header.
#pragma once

#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline std::uint64_t global_timer() {
    return emulator::virtual_time();
}
// Moves on whenever it is read, as those do who wait for it.
inline std::uint64_t sm_clock() {
    static std::uint64_t reads = 0;
    return emulator::virtual_time() + ++reads;
}
inline void poll_pause() {
    emulator::poll_pause();
}

}  // namespace pk::ptx
