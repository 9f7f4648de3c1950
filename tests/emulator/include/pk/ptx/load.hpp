// Takes the place of the project's header.
#pragma once

#include <cstring>

#include "emulator/mbarrier.hpp"
#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

inline uint4 load_stream(const void* p) {
    return *static_cast<const uint4*>(p);
}

inline uint4 load_relaxed_words(const std::uint32_t* p) {
    emulator::own_stores_first(p, 16);
    emulator::polled_load();
    return *reinterpret_cast<const uint4*>(p);
}
inline void store_relaxed_words(std::uint32_t* p, uint4 v) {
    const std::uint32_t words[] = {v.x, v.y, v.z, v.w};
    for (std::uint32_t i = 0; i < 4; ++i) emulator::store_later(p + i, words[i]);
}

}  // namespace pk::ptx
