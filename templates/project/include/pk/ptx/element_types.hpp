// Element types of 16 bits, as arguments that choose.
#pragma once

namespace pk::ptx {

struct OfBf16 {};
struct OfF16 {};

}  // namespace pk::ptx
