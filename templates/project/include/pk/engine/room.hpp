// Places in memory that ranks lay out alike.
#pragma once

#include <cstdint>

namespace pk::engine {

inline constexpr std::uint32_t most_sms = 1024;  // of a device, or threads of a host

// The place of `bytes` more behind those that are `taken`. 64-bit sums throughout: buffers of some gigabytes
// are not unusual.
inline std::uint64_t take_room(std::uint64_t& taken, std::uint64_t bytes) {
    static constexpr std::uint64_t alignment = 1024;
    const std::uint64_t at = taken;
    taken += (bytes + alignment - 1) / alignment * alignment;
    return at;
}

}  // namespace pk::engine
