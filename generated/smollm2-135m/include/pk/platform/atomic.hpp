// Atomic accesses to memory that workers share. On the host every one is a std::atomic_ref operation, so that
// ThreadSanitizer sees the order; on a GPU it is one instruction of gpu scope, or of system scope (_system)
// where a thread outside the device looks on.
#pragma once

#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/ptx/atomics.hpp"
#else
#include <atomic>
#endif

namespace pk {

#if PK_CUDA

using ptx::add_acq_rel;
using ptx::add_relaxed;
using ptx::compare_exchange_relaxed;
using ptx::load_acquire;
using ptx::load_relaxed;
using ptx::store_relaxed;
using ptx::store_relaxed_system;
using ptx::store_release;
using ptx::store_release_system;

#else

namespace detail {

// atomic_ref has no const form in C++20; loads do not write.
template <class T>
std::atomic_ref<T> shared(const T* p) {
    return std::atomic_ref<T>(*const_cast<T*>(p));
}

}  // namespace detail

template <class T>
T load_relaxed(const T* p) {
    return detail::shared(p).load(std::memory_order_relaxed);
}

template <class T>
T load_acquire(const T* p) {
    return detail::shared(p).load(std::memory_order_acquire);
}

template <class T>
void store_relaxed(T* p, T value) {
    detail::shared(p).store(value, std::memory_order_relaxed);
}

template <class T>
void store_release(T* p, T value) {
    detail::shared(p).store(value, std::memory_order_release);
}

template <class T>
void store_relaxed_system(T* p, T value) {
    store_relaxed(p, value);
}

template <class T>
void store_release_system(T* p, T value) {
    store_release(p, value);
}

// Adds and returns what was there before.
template <class T>
T add_relaxed(T* p, T value) {
    return detail::shared(p).fetch_add(value, std::memory_order_relaxed);
}

template <class T>
T add_acq_rel(T* p, T value) {
    return detail::shared(p).fetch_add(value, std::memory_order_acq_rel);
}

// *p = desired if it was expected; what it was.
template <class T>
T compare_exchange_relaxed(T* p, T expected, T desired) {
    detail::shared(p).compare_exchange_strong(expected, desired, std::memory_order_relaxed);
    return expected;
}

#endif

}  // namespace pk
