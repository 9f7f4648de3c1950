// Takes the place of the project's header. That bulk copies need a fence of their proxy is not emulated.
#pragma once

#include "emulator/mbarrier.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline void fence_acq_rel() {
    emulator::release_stores();
}
inline void fence_proxy_async() {}

}  // namespace pk::ptx
