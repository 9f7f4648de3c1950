// The weights of a run, whose rows the product's columns are.
#pragma once

#include <cstdint>

namespace pk::engine {

struct Weights {
    const void* weight;
    std::uint32_t stride;  // elements
    const void* up;        // with silu_mul
    std::uint32_t up_stride;
};

}  // namespace pk::engine
