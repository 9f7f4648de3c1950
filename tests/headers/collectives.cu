// Compiles the collectives, in types and forms of which few projects have more than one.
#include "pk/lcsc/collective.hpp"

namespace pk::lcsc {

template __global__ void collective<Collective::gather, ptx::OfBf16>(const __grid_constant__ Moves);
template __global__ void collective<Collective::scatter, ptx::OfF16>(const __grid_constant__ Moves);
template __global__ void collective<Collective::all_reduce, ptx::OfBf16>(const __grid_constant__ Moves);
template __global__ void collective<Collective::to_columns, ptx::OfBf16>(const __grid_constant__ Moves);
template __global__ void collective<Collective::to_rows, ptx::OfBf16>(const __grid_constant__ Moves);
template __global__ void small_all_reduce<ptx::OfF16>(const __grid_constant__ SmallSum);

}  // namespace pk::lcsc
