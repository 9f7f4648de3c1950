// Takes the place of the project's header.
#pragma once

#include "emulator/builtins.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline std::uint32_t equal_in_warp(std::uint32_t x) {
    return __shfl_sync(~0u, x, 0);
}

}  // namespace pk::ptx
