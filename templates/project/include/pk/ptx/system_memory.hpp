// Accesses at system scope: memory that threads of other devices write or read.
#pragma once

#include "pk/ptx/atomics.hpp"

namespace pk::ptx {

__device__ __forceinline__ std::uint32_t load_acquire_system(const std::uint32_t* p) {
    std::uint32_t v;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

// Adds and returns what was there before. With acq_rel a chain of these by threads of one device hands on
// what each of them wrote, to peers too.
__device__ __forceinline__ std::uint32_t add_acq_rel_system(std::uint32_t* p, std::uint32_t v) {
    std::uint32_t old;
    asm volatile("atom.acq_rel.sys.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

// 16 bytes that another thread of this device wrote; past L1.
__device__ __forceinline__ uint4 load_past_l1(const void* p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(__cvta_generic_to_global(p))
                 : "memory");
    return v;
}

// 16 bytes, to this device or a peer.
__device__ __forceinline__ void store_16(void* p, uint4 v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(p)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}

}  // namespace pk::ptx
