// Barriers in shared memory (mbarrier). A phase completes when all expected threads have arrived and all
// expected bytes have been written; then the next phase begins with the same number of arrivals. Two proxies
// meet here: threads read and write memory in the generic proxy, bulk copies (bulk_copy.hpp) in the async
// proxy.
//
// A barrier is waited for by the parity of a phase: 0, 1, 0, ... from the first on. A thread must not fall
// two phases behind, or it takes the phase after next for its own. Waiting for parity 1 on a fresh barrier
// returns at once, so whoever fills an empty ring starts with parity 1 and whoever drains it with parity 0.
//
// A barrier is told by where it is, or by its address in shared memory (shared_address.hpp).
#pragma once

#include "pk/ptx/shared_address.hpp"

#if PK_CUDA  // on the host there is none

namespace pk::ptx {

// One thread calls, before any use: each phase needs `arrivals` arrivals. The barrier is 8 bytes, 8-byte
// aligned. Others may use it after mbarrier_init_fence() by this thread and a __syncthreads() (or a cluster
// barrier).
__device__ __forceinline__ void mbarrier_init(std::uint64_t* barrier, std::uint32_t arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;"
                 :
                 : "r"(shared_address(barrier)), "r"(arrivals)
                 : "memory");
}

// One arrival. Releases at block scope: what this thread read or wrote before (generic proxy) comes before
// whatever a thread does that waits for this phase. After reads that is all it takes to let a bulk copy
// overwrite them, issued by a thread that has waited; after writes that a bulk copy shall see or overwrite,
// call fence_proxy_async_shared() first.
__device__ __forceinline__ void mbarrier_arrive(std::uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" : : "r"(barrier) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(std::uint64_t* barrier) {
    mbarrier_arrive(shared_address(barrier));
}

#if PK_SM90

// Makes the mbarrier_init of this thread seen by the cluster and by bulk copies that complete on the barrier.
__device__ __forceinline__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
}

// `bytes` more must be written before this phase completes, and then one arrival, which releases as
// mbarrier_arrive does. Called before the copies are issued:
// their bytes may come at once, and the phase must not complete between two of them.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(std::uint32_t barrier, std::uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" : : "r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive_expect_tx(std::uint64_t* barrier, std::uint32_t bytes) {
    mbarrier_arrive_expect_tx(shared_address(barrier), bytes);
}

// Whether the phase of this parity is complete; the thread may sleep a little before it says no. Yes acquires
// at block scope: everything released by the arrivals of that phase, and the bytes that bulk copies wrote for
// it, which generic loads may read without a further fence.
__device__ __forceinline__ bool mbarrier_try_wait(std::uint32_t barrier, std::uint32_t parity) {
    std::uint32_t complete;
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.shared.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(barrier), "r"(parity)
        : "memory");
    return complete != 0;
}
__device__ __forceinline__ bool mbarrier_try_wait(std::uint64_t* barrier, std::uint32_t parity) {
    return mbarrier_try_wait(shared_address(barrier), parity);
}

// The same, and returns at once.
__device__ __forceinline__ bool mbarrier_test_wait(std::uint64_t* barrier, std::uint32_t parity) {
    std::uint32_t complete;
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.test_wait.parity.shared.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    return complete != 0;
}

// What this thread wrote to shared memory (generic proxy) comes before the bulk copies that are issued by it,
// or by a thread that it synchronizes with afterwards (async proxy).
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
}

#endif

}  // namespace pk::ptx

#endif
