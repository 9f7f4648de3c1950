// store_async: a tile from the shared memory of a block to a rank, while the block goes on.
// store_add_async: the same, added to (or the smaller or larger of) what is there.
//
// One thread calls. Its order:
//  1. those who wrote the tile (generic proxy) call ptx::fence_proxy_async and synchronize with it;
//  2. it calls store_async or store_add_async, any number of times, and store_async_commit;
//  3. store_async_wait_read before the tile is written again;
//  4. store_async_wait and then signal, which releases the stores to the rank that waits for the flag. There
//  a
//     reader in the generic proxy needs only that wait; bulk loads need a fence_proxy_async after it.
// Neither orders two stores to the same place. An addition is atomic for each element, whoever else adds; PTX
// promises that among threads of one device, and the memory's own device does it for those of others. Nobody
// may store or load plainly there meanwhile.
//
// The host twin has done everything when it returns; a tile is memory of the calling thread.
#pragma once

#include "pk/tile/reduction.hpp"
#if PK_CUDA
#include "pk/ptx/bulk_store.hpp"
#include "pk/ptx/wgmma_tile.hpp"
#else
#include <cstring>

#include "pk/tile/f16.hpp"
#endif

namespace pk {

using tile::Reduction;

#if PK_CUDA

// Addresses and bytes are multiples of 16.
PK_DEVICE void store_async(void* to, const void* from, std::uint32_t bytes) {
    ptx::bulk_store(to, from, bytes);
}

// Type: float (add only), or an element type of wgmma_tile.hpp.
template <Reduction How, class Type>
PK_DEVICE void store_add_async(void* to, const void* from, std::uint32_t bytes) {
    if constexpr (std::is_same_v<Type, float>) {
        static_assert(How == Reduction::add, "the copy engine adds floats, and does nothing else with them");
        ptx::bulk_add_f32(to, from, bytes);
    } else if constexpr (std::is_same_v<Type, ptx::OfBf16>) {
        if constexpr (How == Reduction::add) ptx::bulk_add_bf16(to, from, bytes);
        if constexpr (How == Reduction::min) ptx::bulk_min_bf16(to, from, bytes);
        if constexpr (How == Reduction::max) ptx::bulk_max_bf16(to, from, bytes);
    } else {
        if constexpr (How == Reduction::add) ptx::bulk_add_f16(to, from, bytes);
        if constexpr (How == Reduction::min) ptx::bulk_min_f16(to, from, bytes);
        if constexpr (How == Reduction::max) ptx::bulk_max_f16(to, from, bytes);
    }
}

PK_DEVICE void store_async_commit() {
    ptx::bulk_store_commit();
}
template <std::uint32_t Left>
PK_DEVICE void store_async_wait_read() {
    ptx::bulk_store_wait_read<Left>();
}
template <std::uint32_t Left>
PK_DEVICE void store_async_wait() {
    ptx::bulk_store_wait<Left>();
}

#else

inline void store_async(void* to, const void* from, std::uint32_t bytes) {
    std::memcpy(to, from, bytes);
}

template <Reduction How, class Type>
void store_add_async(void* to, const void* from, std::uint32_t bytes) {
    static_assert(How == Reduction::add || !std::is_same_v<Type, float>,
                  "the copy engine adds floats, and does nothing else with them");
    auto* there = static_cast<Type*>(to);
    const auto* given = static_cast<const Type*>(from);
    for (std::uint32_t i = 0; i < bytes / sizeof(Type); ++i) tile::combine<How>(there[i], given[i]);
}

inline void store_async_commit() {}
template <std::uint32_t Left>
void store_async_wait_read() {}
template <std::uint32_t Left>
void store_async_wait() {}

#endif

}  // namespace pk
