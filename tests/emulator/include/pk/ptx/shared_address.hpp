// Takes the place of the project's header: addresses of shared memory as emulator/thread.hpp has them.
#pragma once

#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

#define PK_SM90 1

namespace pk::ptx {

inline std::uint32_t shared_address(const void* p) {
    return emulator::shared_address(p);
}

}  // namespace pk::ptx
