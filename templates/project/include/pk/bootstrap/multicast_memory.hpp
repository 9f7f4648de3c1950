// The same number of bytes on every rank, which the network reaches all at once; and for its owner, each part
// by an address of its own.
#pragma once

#include <cstddef>
#include <memory>

#include "pk/memory/multicast_tensor.hpp"
#if PK_CUDA
#include "pk/bootstrap/cuda/multicast.hpp"
#else
#include "pk/bootstrap/peer_memory.hpp"
#endif

namespace pk::bootstrap {

#if !PK_CUDA
namespace host {

// The twin: each rank sees everybody's.
class MulticastPart {
public:
    MulticastPart(Exchange& exchange, std::size_t bytes) : memory_(exchange, bytes, -1) {}

    char* own() const { return memory_.mine(); }
    std::size_t bytes() const { return memory_.bytes(); }
    memory::MulticastTensor<char> all(std::size_t at) const {
        const auto rank = static_cast<std::uint32_t>(memory_.rank());
        const auto world = static_cast<std::uint32_t>(memory_.world());
        memory::MulticastTensor<char> tensor{rank, world, {}};
        for (std::uint32_t r = 0; r < world; ++r) tensor.at[r] = memory_.at(static_cast<int>(r)) + at;
        return tensor;
    }

private:
    PeerMemory memory_;
};

inline std::unique_ptr<MulticastPart> make_multicast(Exchange& exchange, std::size_t bytes, int) {
    return std::make_unique<MulticastPart>(exchange, bytes);
}

}  // namespace host
#endif

class MulticastMemory {
#if PK_CUDA
    using Part = cuda::MulticastPart;
#else
    using Part = host::MulticastPart;
#endif

public:
    MulticastMemory() = default;

    // Collective; all ranks ask for the same number of bytes, and on GPUs each is on a device of its own. The
    // memory is zeroed on all ranks when the constructor returns on any. That the network does reach it is
    // not tried, as probe.hpp tries other memory of the ranks.
    MulticastMemory(Exchange& exchange, std::size_t bytes, int device) {
#if PK_CUDA
        part_ = cuda::make_multicast(exchange, bytes, device);
#else
        part_ = host::make_multicast(exchange, bytes, device);
#endif
    }

    // Destroying is local, and takes this rank's part out of the network's reach: no rank may still add or
    // store there. Where that is not known, the memory is left to the end of the process. (Of the twin each
    // mapping keeps the memory.)
    void abandon() {
#if PK_CUDA
        (void)part_.release();
#endif
    }

    char* mine() const { return part_->own(); }
    std::size_t bytes() const { return part_->bytes(); }
    // From byte `at` on.
    memory::MulticastTensor<char> everywhere(std::size_t at) const {
#if PK_CUDA
        return {part_->all() + at};
#else
        return part_->all(at);
#endif
    }

private:
    std::unique_ptr<Part> part_;
};

}  // namespace pk::bootstrap
