// Takes the place of the project's header.
#pragma once

#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline std::uint32_t block_number() {
    return emulator::block_index().x;
}

}  // namespace pk::ptx
