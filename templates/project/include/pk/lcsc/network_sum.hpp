// What an all-reduce in the network is told.
#pragma once

#include "pk/lcsc/moves.hpp"
#include "pk/memory/multicast_tensor.hpp"

namespace pk::lcsc {

// Dense tensors in memory that the network reaches. Each rank lets the network add up its share of the
// pieces, and send the sums to all.
struct NetworkSum : Call {
    memory::MulticastTensor<char> in, out;
    PieceShards pieces;

    PK_HOST_DEVICE std::uint64_t first_byte() const { return pieces.begin(rank) * 16; }
    PK_HOST_DEVICE std::uint64_t bytes() const { return pieces.count(rank) * 16; }
};

}  // namespace pk::lcsc
