// Bounded waits. A wait that runs out writes the report; then, and when another worker has written one, all
// further waits of the thread end at once, so that every thread runs on to the end of the step and leaves.
#pragma once

#include "mpk/machine.hpp"
#include "mpk/watchdog.hpp"
#include "pk/platform/clock.hpp"

namespace mpk::cluster {

class Patience {
public:
    // op: what the messages name. expected and seen mean what the wait says.
    PK_DEVICE explicit Patience(const Machine& m) : m_(m) {}

    PK_DEVICE bool gone() const { return gone_; }

    // Polls test() until it holds. Returns false if it does not.
    template <class Test>
    PK_DEVICE bool until(Test test, std::uint32_t op, std::uint32_t step, std::uint32_t event) {
        for (std::uint32_t polls = 0; !test(); ++polls) {
            if (gone_) return false;
            if (polls % look_interval == look_interval - 1) look(polls, op, step, event);
        }
        return true;
    }

private:
    static constexpr std::uint32_t look_interval = 512;

    // Now and then: has somebody given up, or is the time up?
    PK_DEVICE void look(std::uint32_t polls, std::uint32_t op, std::uint32_t step, std::uint32_t event) {
        gone_ = failed(m_);
        const std::uint64_t now = pk::now_ns();
        if (polls < look_interval) began_ = now;
        if (gone_ || now - began_ < m_.timeout_ns) return;
        report_timeout(m_, blockIdx.x, {event, step + 1, step, 0, op}, step);
        gone_ = true;
    }

    const Machine& m_;
    std::uint64_t began_ = 0;
    bool gone_ = false;
};

}  // namespace mpk::cluster
