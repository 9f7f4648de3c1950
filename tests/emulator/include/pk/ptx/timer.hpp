// Takes the place of the project's header.
#pragma once

#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline std::uint64_t global_timer() {
    return emulator::virtual_time();
}
inline std::uint64_t sm_clock() {
    return emulator::virtual_time();
}
inline void poll_pause() {
    emulator::poll_pause();
}

}  // namespace pk::ptx
