// Bulk copies (1-D TMA) to shared memory, which one thread issues and no register passes through.
#pragma once

#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

#if PK_SM90

// Starts a copy of `bytes` from global memory to the shared memory of this block; all three are multiples
// of 16. Both ends are accessed in the async proxy:
//  - `barrier`, where the bytes are expected (mbarrier_arrive_expect_tx), counts them when they are written:
//    a thread that has waited for that phase reads them. Nothing else says that they have come.
//  - `to` must be free: the issuing thread has waited for a barrier on which all readers arrived.
//  - `from` was written before the kernel began, or by a thread that released it to this one, with a
//    fence.proxy.async between that acquire and this call.
__device__ __forceinline__ void bulk_load(void* to, const void* from, std::uint32_t bytes,
                                          std::uint64_t* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                   "r"(shared_address(barrier))
                 : "memory");
}

// The same with a policy for the lines that pass through L2.
__device__ __forceinline__ void bulk_load(void* to, const void* from, std::uint32_t bytes,
                                          std::uint64_t* barrier, std::uint64_t policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, "
        "[%3], %4;"
        :
        : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
          "r"(shared_address(barrier)), "l"(policy)
        : "memory");
}

// The same from the shared memory of this block to that of a block of its cluster, where the barrier is, too
// (peer_address). `from` was written before with a fence.proxy.async between, and stays until the peer has
// it: nothing here says when that is.
__device__ __forceinline__ void bulk_copy_to_peer(std::uint32_t to, std::uint32_t from, std::uint32_t bytes,
                                                  std::uint32_t barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        :
        : "r"(to), "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

// A hint: brings `bytes`, a multiple of 16, into L2.
__device__ __forceinline__ void prefetch_l2(const void* from, std::uint32_t bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 :
                 : "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}

#endif

// For data that is read once: it is the first to leave L2.
__device__ __forceinline__ std::uint64_t policy_evict_first() {
    std::uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

}  // namespace pk::ptx
