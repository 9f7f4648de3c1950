// The same tensor on every rank, as this rank reads and writes it: PeerMemory or PeerView, on the device.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::memory {

inline constexpr std::uint32_t most_ranks = 16;

template <class T>
struct PeerTensor {
    std::uint32_t rank, world;
    T* at[most_ranks];

    PK_HOST_DEVICE T* mine() const { return at[rank]; }
    // The n-th rank after this one, so that ranks that all send begin with different ones.
    PK_HOST_DEVICE std::uint32_t after(std::uint32_t n) const {
        return rank + n < world ? rank + n : rank + n - world;
    }
};

}  // namespace pk::memory
