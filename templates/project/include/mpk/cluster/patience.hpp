// Bounded waits. A wait that runs out writes the report; then, and when another worker has written one, all
// further waits of the thread end at once, so that every thread runs on to the end of the step and leaves.
#pragma once

#include "mpk/cluster/setup.hpp"
#include "mpk/machine.hpp"
#include "mpk/watchdog.hpp"
#include "pk/platform/clock.hpp"

namespace mpk::cluster {

class Patience {
public:
    PK_DEVICE Patience(const Machine& m, const Setup& setup) : m_(m), setup_(setup) {}

    PK_DEVICE bool gone() const { return gone_; }

    // Polls test() until it holds. Returns false if it does not. A report names `op`, its first task and the
    // event that the plan has that wait for; expected and seen count steps.
    template <class Test>
    PK_DEVICE bool until(Test test, std::uint32_t op, std::uint32_t step) {
        for (std::uint32_t polls = 0; !test(); ++polls) {
            if (gone_) return false;
            if (polls % look_interval == look_interval - 1) look(polls, op, step);
        }
        return true;
    }

private:
    static constexpr std::uint32_t look_interval = 512;

    // Now and then: has somebody given up, or is the time up?
    PK_DEVICE void look(std::uint32_t polls, std::uint32_t op, std::uint32_t step) {
        gone_ = failed(m_);
        const std::uint64_t now = pk::now_ns();
        if (polls < look_interval) began_ = now;
        if (gone_ || now - began_ < m_.timeout_ns) return;
        const std::uint32_t task = setup_.op_tasks[op];
        report_timeout(m_, blockIdx.x, {m_.tasks[task].wait, step + 1, step, task, op}, step);
        gone_ = true;
    }

    const Machine& m_;
    const Setup& setup_;
    std::uint64_t began_ = 0;
    bool gone_ = false;
};

}  // namespace mpk::cluster
