// Memory that the caller owns, of every rank, seen at this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pk/bootstrap/host_memory.hpp"
#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/bootstrap/cuda/view.hpp"
#endif

namespace pk::bootstrap {

class PeerView {
public:
    PeerView() = default;

    // Collective. `bytes` may differ between ranks; a rank that shows nothing passes nullptr and 0. The owner
    // keeps its memory until all ranks have destroyed their views. Across processes the memory is either of
    // cudaMalloc or of a VMM allocation that was made to be exported; the host twin sees one process only.
    PeerView(Exchange& exchange, void* mine, std::size_t bytes, int device) : rank_(exchange.rank()) {
        struct Part {
            std::uint64_t data, bytes;
        };
        const auto address = reinterpret_cast<std::uint64_t>(mine);
        const std::vector<Part> parts = gather(exchange, Part{address, bytes});
        for (std::size_t r = 0; r < parts.size(); ++r) {
            bytes_.push_back(static_cast<std::size_t>(parts[r].bytes));
            if ((parts[r].data == 0) == (parts[r].bytes == 0)) continue;
            fail(Status::invalid_argument, "rank ", r, " shows ", parts[r].bytes, " bytes at ",
                 parts[r].data == 0 ? "a null pointer" : "an address",
                 ", expected a pointer and a size, or neither");
        }
#if PK_CUDA
        mapped_ = cuda::map_view(exchange, mine, bytes, device);
#else
        (void)device;
        if (!exchange.one_process()) {
            fail(Status::unsupported, "rank ", exchange.rank(),
                 ": memory of the caller cannot be seen by ranks in other processes on the host; expected "
                 "PeerMemory");
        }
        for (const Part& part : parts) {
            mapped_.emplace_back(reinterpret_cast<char*>(part.data), [](char*) {});
        }
#endif
    }

    char* at(int rank) const { return mapped_[static_cast<std::size_t>(rank)].get(); }
    char* mine() const { return at(rank_); }
    std::size_t bytes(int rank) const { return bytes_[static_cast<std::size_t>(rank)]; }
    int world() const { return static_cast<int>(mapped_.size()); }

private:
    int rank_ = 0;
    std::vector<std::size_t> bytes_;
    Mappings mapped_;
};

}  // namespace pk::bootstrap
