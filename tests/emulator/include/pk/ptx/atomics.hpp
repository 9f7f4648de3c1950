// Takes the place of the project's header. Only one thread runs at a time, so every access is atomic; what
// is emulated of the order is that relaxed stores come later, but before a release of their block.
#pragma once

#include "emulator/mbarrier.hpp"
#include "emulator/thread.hpp"
#include "pk/platform/platform.hpp"

namespace pk::ptx {

template <class T>
T load_relaxed(const T* p) {
    emulator::own_stores_first(p, sizeof *p);
    emulator::polled_load();
    return *const_cast<const volatile T*>(p);
}
template <class T>
T load_acquire(const T* p) {
    return load_relaxed(p);
}

inline uint4 load_relaxed(const uint4* p) {
    emulator::own_stores_first(p, sizeof *p);
    emulator::polled_load();
    return *p;
}
inline void store_relaxed(uint4* p, uint4 value) {
    *p = value;
    emulator::visible_step();
}

inline void store_relaxed(std::uint32_t* p, std::uint32_t value) {
    emulator::store_later(p, value);
}

template <class T>
void store_release(T* p, T value) {
    emulator::release_stores();
    *const_cast<volatile T*>(p) = value;
    emulator::visible_step();
}
template <class T>
void store_relaxed_system(T* p, T value) {
    *const_cast<volatile T*>(p) = value;
}
template <class T>
void store_release_system(T* p, T value) {
    store_release(p, value);
}

template <class T>
T add_relaxed(T* p, T value) {
    emulator::own_stores_first(p, sizeof *p);
    const T old = *p;
    *p = old + value;
    emulator::visible_step();
    return old;
}
template <class T>
T add_acq_rel(T* p, T value) {
    emulator::release_stores();
    return add_relaxed(p, value);
}

inline std::uint32_t compare_exchange_relaxed(std::uint32_t* p, std::uint32_t expected,
                                              std::uint32_t desired) {
    emulator::own_stores_first(p, sizeof *p);
    const std::uint32_t old = *p;
    if (old == expected) *p = desired;
    emulator::visible_step();
    return old;
}

}  // namespace pk::ptx
