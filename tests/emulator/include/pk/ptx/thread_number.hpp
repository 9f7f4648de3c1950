// Takes the place of the project's header.
#pragma once

#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline std::uint32_t thread_number() {
    return emulator::running->index.x;
}

}  // namespace pk::ptx
