// Bounded waits: a wait without progress for Machine::timeout_ns writes the report, and every worker that
// sees a report leaves.
#pragma once

#include "mpk/machine.hpp"
#include "pk/platform/atomic.hpp"
#include "pk/platform/clock.hpp"

namespace mpk {

// What a worker waits for.
struct Wait {
    std::uint32_t event, target, step;
    std::uint32_t task;  // index of the task that is to run, no_task at the end of a step
    std::uint32_t op;
};

inline constexpr std::uint32_t no_task = 0xffffffff;

PK_DEVICE bool failed(const Machine& m) {
    return pk::load_relaxed(&m.report->state) != 0;
}

// The first to fail describes it: whether this is the first. All who ask failed() leave from now on.
PK_DEVICE bool claim_report(const Machine& m) {
    return pk::compare_exchange_relaxed(&m.report->state, 0u, 1u) == 0;
}

// By the one who has claimed it, before it leaves; `state` is 2 once the other fields are complete (release).
PK_DEVICE void write_report(const Machine& m, std::uint32_t worker, const Wait& wait, std::uint32_t seen) {
    Report& report = *m.report;
    report.rank = m.rank;
    report.worker = worker;
    report.task = wait.task;
    report.op = wait.op;
    report.event = wait.event;
    report.expected = wait.target;
    report.seen = seen;
    report.step = wait.step;
    pk::store_release(&report.state, 2u);
}

PK_DEVICE void report_timeout(const Machine& m, std::uint32_t worker, const Wait& wait, std::uint32_t seen) {
    if (claim_report(m)) write_report(m, worker, wait, seen);
}

// Measures the time since the counter last moved. The clock is read once in a while only. Of a long time
// between two looks at it only a part counts: then this worker was stopped, and most likely so were those
// that it waits for (SIGSTOP, a debugger, a frozen container, a machine put to sleep).
class Watchdog {
public:
    PK_DEVICE explicit Watchdog(std::uint64_t timeout_ns) : timeout_(timeout_ns) {}

    // After a poll that saw `counter`; true when the time is up.
    PK_DEVICE bool expired(std::uint32_t counter) {
        if (counter != seen_) {
            seen_ = counter;
            last_look_ = 0;
            waited_ = 0;
        }
        if (++polls_ % clock_interval != 0) return false;
        const std::uint64_t now = pk::now_ns();
        if (last_look_ != 0) {
            const std::uint64_t gap = now - last_look_, most = timeout_ / 16;
            waited_ += gap < most ? gap : most;
        }
        last_look_ = now;
        return waited_ >= timeout_;
    }

    PK_DEVICE std::uint32_t polls() const { return polls_; }

private:
    static constexpr std::uint32_t clock_interval = 64;
    std::uint64_t timeout_;
    std::uint64_t last_look_ = 0;  // 0: none since the counter moved
    std::uint64_t waited_ = 0;
    std::uint32_t seen_ = 0;
    std::uint32_t polls_ = 0;
};

}  // namespace mpk
