// An all-reduce in the network, by itself: what is added where is all in the primitive.
#pragma once

#include "pk/lcsc/network_sum.hpp"
#include "pk/lcsc/together.hpp"
#include "pk/primitives/network_reduce.hpp"

namespace pk::lcsc {

// Between the begin and the end of all ranks: the flags, and the block's barriers, stand between copies into
// and out of the tensors and what the network does.
template <class Type>
__global__ void __launch_bounds__(mover_threads, 1) network_all_reduce(const __grid_constant__ NetworkSum m) {
    together(m, [&] {
        const std::uint32_t thread = blockIdx.x * mover_threads + threadIdx.x;
        all_reduce_in_network<Type>(m.out, m.in, m.first_byte(), m.bytes(), thread,
                                    gridDim.x * mover_threads);
    });
}

}  // namespace pk::lcsc
