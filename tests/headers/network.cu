// Compiles what adds in the network, in both types, and how its memory is made. It is never run on a GPU.
#include "pk/engine/network.hpp"
#include "pk/lcsc/network.hpp"

namespace pk::lcsc {

template __global__ void network_all_reduce<ptx::OfBf16>(const __grid_constant__ NetworkSum);
template __global__ void network_all_reduce<ptx::OfF16>(const __grid_constant__ NetworkSum);

}  // namespace pk::lcsc
