// Accesses to multimem addresses, each of which stands for one place in the memory of every device of a
// multicast object. No other instructions may use such an address.
//
// Order. Both are relaxed at system scope: by themselves they order nothing, and an access of 16 bytes is one
// for each element, in no order. A flag of primitives/flags.hpp orders them as it does plain accesses: what a
// rank wrote before its signal is loaded by multimem_add after the wait that has acquired it; what
// multimem_store stored before a signal is seen after the wait for that. But each device also knows its place
// by an address of its own, by which it fills and reads it: an access by the one address comes before one by
// the other only if there is a fence_proxy_alias, or the begin or the end of a kernel, on the way that orders
// them.
#pragma once

#include <type_traits>

#include "pk/platform/platform.hpp"
#include "pk/ptx/element_types.hpp"

namespace pk::ptx {

// Accesses to one place by several addresses: those before the call come before those after it.
__device__ __forceinline__ void fence_proxy_alias() {
    asm volatile("fence.proxy.alias;" : : : "memory");
}

#define PK_PTX_MULTIMEM_ADD(NAME, TYPE)                                            \
    __device__ __forceinline__ uint4 NAME(const void* p) {                         \
        uint4 v;                                                                   \
        asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4." TYPE \
                     " {%0, %1, %2, %3}, [%4];"                                    \
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)                  \
                     : "l"(__cvta_generic_to_global(p))                            \
                     : "memory");                                                  \
        return v;                                                                  \
    }
#define PK_PTX_MULTIMEM_STORE(NAME, TYPE)                                                       \
    __device__ __forceinline__ void NAME(void* p, uint4 v) {                                    \
        asm volatile("multimem.st.relaxed.sys.global.v4." TYPE " [%0], {%1, %2, %3, %4};"       \
                     :                                                                          \
                     : "l"(__cvta_generic_to_global(p)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) \
                     : "memory");                                                               \
    }

// 16 bytes of every device, added up on their way: sums of at least the precision of f32, in an order that
// nobody says, rounded once.
PK_PTX_MULTIMEM_ADD(multimem_add_bf16, "bf16x2")
PK_PTX_MULTIMEM_ADD(multimem_add_f16, "f16x2")
// 16 bytes, to every device.
PK_PTX_MULTIMEM_STORE(multimem_store_bf16, "bf16x2")
PK_PTX_MULTIMEM_STORE(multimem_store_f16, "f16x2")

#undef PK_PTX_MULTIMEM_ADD
#undef PK_PTX_MULTIMEM_STORE

// Type: of element_types.hpp.
template <class Type>
__device__ __forceinline__ uint4 multimem_add(const void* p) {
    if constexpr (std::is_same_v<Type, OfBf16>) {
        return multimem_add_bf16(p);
    } else {
        return multimem_add_f16(p);
    }
}
template <class Type>
__device__ __forceinline__ void multimem_store(void* p, uint4 v) {
    if constexpr (std::is_same_v<Type, OfBf16>) {
        multimem_store_bf16(p, v);
    } else {
        multimem_store_f16(p, v);
    }
}

}  // namespace pk::ptx
