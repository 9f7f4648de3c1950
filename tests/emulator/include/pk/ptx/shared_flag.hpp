// Takes the place of the project's header.
#pragma once

#include "pk/ptx/atomics.hpp"

namespace pk::ptx {

inline void store_release_shared(std::uint32_t* flag, std::uint32_t value) {
    store_release(flag, value);
}
inline std::uint32_t load_acquire_shared(const std::uint32_t* flag) {
    return load_acquire(flag);
}
inline std::uint32_t load_volatile(const std::uint32_t* word) {
    return load_relaxed(word);
}
inline void store_volatile(std::uint32_t* word, std::uint32_t value) {
    *const_cast<volatile std::uint32_t*>(word) = value;
    emulator::visible_step();
}

}  // namespace pk::ptx
