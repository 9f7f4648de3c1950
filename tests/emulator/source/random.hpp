// Random numbers that a seed determines.
#pragma once

#include <cstdint>

namespace emulator {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 0x2545f4914f6cdd1d) {}

    std::uint32_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<std::uint32_t>(state_ >> 32);
    }
    // 0 .. count - 1.
    std::uint32_t below(std::uint32_t count) {
        return static_cast<std::uint32_t>(std::uint64_t{next()} * count >> 32);
    }
    bool chance(std::uint32_t in_256) { return (next() >> 24) < in_256; }

private:
    std::uint64_t state_;
};

}  // namespace emulator
