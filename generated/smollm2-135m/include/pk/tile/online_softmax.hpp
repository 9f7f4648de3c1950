// Softmax-weighted sums built up piece by piece. Multiply-adds are spelled out, so that the same pieces give
// the same bits wherever the code is inlined.
#pragma once

#include "pk/tile/math.hpp"

namespace pk::tile {

// What the parts of a sum are to be multiplied with when two of them meet.
struct Rescale {
    float most, left, right;
};

// `left` and `right` are the largest scores of the two parts, -inf for an empty one; not both are empty.
PK_DEVICE Rescale rescale(float left, float right) {
    const float most = left > right ? left : right;
    return {most, exp(left - most), exp(right - most)};
}

PK_DEVICE float blend(const Rescale& scale, float left, float right) {
    return multiply_add(right, scale.right, left * scale.left);
}

}  // namespace pk::tile
