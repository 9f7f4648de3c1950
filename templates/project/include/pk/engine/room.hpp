// Places in memory that ranks lay out alike.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "pk/engine/versioned.hpp"
#include "pk/lcsc/call.hpp"

namespace pk::engine {

inline constexpr std::uint32_t most_sms = 1024;  // of a device, or threads of a host

// Bytes of so many of so many ...: sizes of a spec multiply to more than 64 bits.
inline std::uint64_t room_of(std::initializer_list<std::uint64_t> factors) {
    static constexpr std::uint64_t most = std::uint64_t{1} << 56;
    std::uint64_t bytes = 1;
    for (const std::uint64_t factor : factors) {
        if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > most) {
            fail(Status::out_of_memory,
                 "the workspace of the largest run that this library allows is too large");
        }
    }
    return bytes;
}

// The place of `bytes` more behind those that are `taken`.
inline std::uint64_t take_room(std::uint64_t& taken, std::uint64_t bytes) {
    static constexpr std::uint64_t alignment = 1024;
    const std::uint64_t at = taken;
    taken += (bytes + alignment - 1) / alignment * alignment;
    return at;
}

// Places for what ranks tell each other of calls.
inline lcsc::CallFlags take_call_flags(std::uint64_t& taken, std::uint32_t world) {
    const std::uint64_t words = world * sizeof(std::uint32_t);
    return {take_room(taken, words), take_room(taken, words), take_room(taken, words * 2)};
}

}  // namespace pk::engine
