// Bounded waits. A wait that runs out claims the report; then, and when another worker has claimed it, all
// further waits of the thread end at once, so that every thread runs on to the end of the step and leaves.
// The report is written there: waits are in the middle of everything, and their code must be short.
#pragma once

#include "mpk/cluster/setup.hpp"
#include "mpk/machine.hpp"
#include "mpk/watchdog.hpp"
#include "pk/platform/clock.hpp"
#include "pk/ptx/block_number.hpp"

namespace mpk::cluster {

class Patience {
public:
    // What has become of the thread's patience; `claimed`: the report is this thread's to write.
    enum class State : std::uint8_t { waits, gone, claimed };

    // `state` may lie in a register or, so as not to take one, in shared memory.
    PK_DEVICE Patience(const Machine& m, const Setup& setup, State& state)
        : m_(m), setup_(setup), state_(state) {}

    PK_DEVICE bool gone() const { return state_ != State::waits; }

    // Polls test() until it holds. Returns false if it does not. A report names `op`, its first task and the
    // event that the plan has that wait for; expected and seen count steps.
    template <class Test>
    PK_DEVICE bool until(Test test, std::uint32_t op, std::uint32_t step) {
        std::uint64_t began = 0;  // at the first look
        for (std::uint32_t polls = 1; !test(); ++polls) {
            if (gone()) return false;
            pk::pause(polls);
            if (polls % look_interval == 0) look(began, op, step);
        }
        return true;
    }

    // The same by all lanes of a warp, which go on together, when test() holds for all or one has given up:
    // so the compiler still knows what is equal in the warp.
    template <class Test>
    PK_DEVICE bool until_all(Test test, std::uint32_t op, std::uint32_t step) {
        std::uint64_t began = 0;
        for (std::uint32_t polls = 1; !__all_sync(~0u, test()); ++polls) {
            if (__any_sync(~0u, gone())) return false;
            pk::pause(polls);
            if (polls % look_interval == 0) look(began, op, step);
        }
        return true;
    }

    // Writes the report if this thread has claimed it. When it leaves.
    PK_DEVICE void report() const {
        if (state_ != State::claimed) return;
        const std::uint32_t op = m_.report->op, step = m_.report->step, task = setup_.op_tasks[op];
        write_report(m_, pk::ptx::block_number(), {m_.tasks[task].wait, step + 1, step, task, op}, step);
    }

private:
    static constexpr std::uint32_t look_interval = 512;

    // Now and then: has somebody given up, or is the time up?
    PK_DEVICE void look(std::uint64_t& began, std::uint32_t op, std::uint32_t step) {
        const std::uint64_t now = pk::now_ns();
        if (began == 0) began = now;
        if (failed(m_)) {
            state_ = State::gone;
        } else if (now - began >= m_.timeout_ns) {
            state_ = State::gone;
            if (claim_report(m_)) {
                state_ = State::claimed;
                m_.report->op = op;
                m_.report->step = step;
            }
        }
    }

    const Machine& m_;
    const Setup& setup_;
    State& state_;
};

}  // namespace mpk::cluster
