// The names by which a configuration chooses elements, on the GPU and on the host.
#pragma once

#include "pk/platform/platform.hpp"
#if PK_CUDA
#include "pk/ptx/element_types.hpp"
#else
#include "pk/tile/f16.hpp"
#endif

namespace pk::lcsc {

#if PK_CUDA
using Bf16 = ptx::OfBf16;
using F16 = ptx::OfF16;
#else
using Bf16 = tile::bf16;
using F16 = tile::f16;
#endif

}  // namespace pk::lcsc
