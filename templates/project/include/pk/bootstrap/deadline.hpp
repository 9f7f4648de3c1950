// A point in time at which a wait gives up.
#pragma once

#include <algorithm>
#include <chrono>

namespace pk::bootstrap {

class Deadline {
public:
    explicit Deadline(unsigned limit_ms)
        : limit_ms_(limit_ms), end_(Clock::now() + std::chrono::milliseconds(limit_ms)) {}

    // For poll(): rounded up, so that a wait of the last fraction of a millisecond does not spin.
    int left_ms() const {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now()).count();
        return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
    }
    bool passed() const { return Clock::now() >= end_; }
    unsigned limit_ms() const { return limit_ms_; }

private:
    using Clock = std::chrono::steady_clock;
    unsigned limit_ms_;
    Clock::time_point end_;
};

}  // namespace pk::bootstrap
