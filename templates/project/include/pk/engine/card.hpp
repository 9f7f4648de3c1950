// What the ranks must have in common in a call, as one word that they compare.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace pk::engine {

inline constexpr std::uint64_t not_shared = ~std::uint64_t{0};  // a matrix that is not in shared memory

// FNV-1a.
inline std::uint32_t card_of(std::initializer_list<std::uint64_t> values) {
    std::uint32_t hash = 2166136261u;
    for (const std::uint64_t value : values) {
        for (int byte = 0; byte < 8; ++byte)
            hash = (hash ^ static_cast<std::uint32_t>(value >> (byte * 8) & 255)) * 16777619u;
    }
    return hash;
}

}  // namespace pk::engine
