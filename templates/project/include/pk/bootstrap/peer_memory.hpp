// The same number of bytes on every rank, mapped at every rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pk/bootstrap/host_memory.hpp"
#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/bootstrap/cuda/memory.hpp"
#endif

namespace pk::bootstrap {

class PeerMemory {
public:
    PeerMemory() = default;

    // Collective; all ranks ask for the same number of bytes. The memory is on `device` (host twin: ignored),
    // zeroed on all ranks when the constructor returns on any.
    PeerMemory(Exchange& exchange, std::size_t bytes, int device)
        : rank_(exchange.rank()), device_(device), bytes_(bytes) {
        const std::vector<std::uint64_t> all = gather(exchange, static_cast<std::uint64_t>(bytes));
        for (std::size_t r = 0; r < all.size(); ++r) {
            if (all[r] == all[0] && bytes != 0) continue;
            fail(Status::invalid_argument, "rank ", r, " asks for ", all[r],
                 " bytes of peer memory, rank 0 for ", all[0],
                 ", expected the same number on all ranks, and not 0");
        }
#if PK_CUDA
        mapped_ = cuda::map_memory(exchange, bytes, device);
#else
        mapped_ = host::map_memory(exchange, bytes);
#endif
    }

    // Destroying is local: it unmaps the peers and gives up this rank's own memory. What was launched here
    // must have ended; a peer that still writes into its mapping of this memory does no harm.

    // `rank`'s memory, as this rank reads and writes it.
    char* at(int rank) const { return mapped_.at[static_cast<std::size_t>(rank)].get(); }
    char* mine() const { return at(rank_); }
    std::size_t bytes() const { return bytes_; }
    int rank() const { return rank_; }
    int device() const { return device_; }
    const char* way() const { return mapped_.way; }
    int world() const { return static_cast<int>(mapped_.at.size()); }

private:
    int rank_ = 0;
    int device_ = 0;
    std::size_t bytes_ = 0;
    PeerMappings mapped_;
};

}  // namespace pk::bootstrap
