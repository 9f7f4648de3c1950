// Words in shared memory by which one thread of a block tells another something.
#pragma once

#include <cstdint>

#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

// What this thread has written or acquired before comes before `value` for a thread that acquires it.
__device__ __forceinline__ void store_release_shared(std::uint32_t* flag, std::uint32_t value) {
    asm volatile("st.release.cta.shared.u32 [%0], %1;" : : "r"(shared_address(flag)), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint32_t load_acquire_shared(const std::uint32_t* flag) {
    std::uint32_t value;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(value) : "r"(shared_address(flag)) : "memory");
    return value;
}

// A hint: orders nothing, but each call is a load or a store of its own.
__device__ __forceinline__ std::uint32_t load_volatile(const std::uint32_t* word) {
    return *const_cast<const volatile std::uint32_t*>(word);
}
__device__ __forceinline__ void store_volatile(std::uint32_t* word, std::uint32_t value) {
    *const_cast<volatile std::uint32_t*>(word) = value;
}

}  // namespace pk::ptx
