// Takes the place of the project's header.
#pragma once

#include <cstdint>

namespace pk::ptx {

inline std::uint32_t or_xor(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return a | (b ^ c);
}

}  // namespace pk::ptx
