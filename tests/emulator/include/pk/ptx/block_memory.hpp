// Takes the place of the project's header.
#pragma once

#include "emulator/thread.hpp"

namespace pk::ptx {

inline unsigned char* block_memory() {
    return emulator::dynamic_memory();
}

namespace detail {

template <class T>
inline constexpr char key_of = 0;

}  // namespace detail

template <class T>
T& block_variable() {
    return *static_cast<T*>(emulator::static_memory(&detail::key_of<T>, sizeof(T)));
}

}  // namespace pk::ptx
