// Thread-block clusters: addresses in the shared memory of the other blocks, stores to them that complete on
// a barrier there, and the barrier of the whole cluster. sm_90 and later.
#pragma once

#include "pk/ptx/shared_address.hpp"

namespace pk::ptx {

#if PK_SM90

// The address that `address` (shared memory of this block) has in block `rank` of the cluster. Adding to it
// moves within that block's memory.
__device__ __forceinline__ std::uint32_t peer_address(std::uint32_t address, std::uint32_t rank) {
    std::uint32_t peer;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(address), "r"(rank));
    return peer;
}

// Stores to the shared memory of a block of the cluster. `barrier`, in the same block as `to`, counts the
// bytes once they are written; a thread there that has waited for that phase (mbarrier_try_wait_cluster)
// reads them. Nothing else orders them: two of these may arrive in any order.
__device__ __forceinline__ void store_peer(std::uint32_t to, std::uint32_t value, std::uint32_t barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :
                 : "r"(to), "r"(value), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void store_peer(std::uint32_t to, uint2 value, std::uint32_t barrier) {
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];"
                 :
                 : "r"(to), "r"(value.x), "r"(value.y), "r"(barrier)
                 : "memory");
}
__device__ __forceinline__ void store_peer(std::uint32_t to, uint4 value, std::uint32_t barrier) {
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
        :
        : "r"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(barrier)
        : "memory");
}

// As mbarrier_try_wait, and acquires at cluster scope: what store_peer wrote for that phase is seen.
__device__ __forceinline__ bool mbarrier_try_wait_cluster(std::uint32_t barrier, std::uint32_t parity) {
    std::uint32_t complete;
    asm volatile(
        "{\n"
        ".reg .pred complete;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 complete, [%1], %2;\n"
        "selp.u32 %0, 1, 0, complete;\n"
        "}"
        : "=r"(complete)
        : "r"(barrier), "r"(parity)
        : "memory");
    return complete != 0;
}

// One arrival at a barrier of a block of the cluster (peer_address). To other blocks it hands nothing on (a
// release at cluster scope is a fence that takes long): it says that products have read, which their wait has
// seen to.
__device__ __forceinline__ void mbarrier_arrive_peer(std::uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" : : "r"(barrier) : "memory");
}

// All threads of all blocks of the cluster call; release before, acquire after.
__device__ __forceinline__ void cluster_sync() {
    asm volatile(
        "barrier.cluster.arrive.release;\n"
        "barrier.cluster.wait.acquire;"
        :
        :
        : "memory");
}

// Four floats in the shared memory of a block of the cluster (peer_address).
__device__ __forceinline__ float4 load_peer(std::uint32_t from) {
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

// The two halves of cluster_sync.
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;" : : : "memory");
}
__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
}

#endif

}  // namespace pk::ptx
