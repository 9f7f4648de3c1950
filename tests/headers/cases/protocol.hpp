// Workers, events and the queue on a small plan made by hand, for thousands of steps; and waits that run out
// of time.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include "cases/toy_plan.hpp"
#include "support/memory.hpp"
#include "support/suite.hpp"

namespace testing {

// The toy plan on `workers` workers; reset() makes it ready for a call.
class ToyMachine {
public:
    explicit ToyMachine(std::uint32_t workers)
        : list_(mpk::make_task_list(toy::plan(), workers)),
          workers_(workers),
          tasks_(list_.tasks.size()),
          ops_(std::size(toy::ops)),
          events_(list_.events.size()),
          begin_(list_.begin.size()),
          own_(list_.list.size() + 1),
          counters_(toy::event_count),
          slots_(toy::queue_capacity),
          words_(96),
          ready_(1),
          live_(1),
          stamp_(1),
          rows_of_(toy::batch),
          faults_(1),
          report_(1),
          buffers_(6 * toy::cells * toy::words),
          tensors_(6) {
        tasks_.assign(list_.tasks);
        for (std::size_t i = 0; i < std::size(toy::ops); ++i) ops_[i] = toy::ops[i];
        events_.assign(list_.events);
        begin_.assign(list_.begin);
        for (std::size_t i = 0; i < list_.list.size(); ++i) own_[i] = list_.list[i];
        for (std::uint32_t t = 0; t < 6; ++t) tensors_[t] = buffers_.data() + t * toy::cells * toy::words;
    }

    // Decodes `steps` steps; whether the workers all came back in less than ten seconds.
    bool run(std::uint32_t steps, std::uint64_t timeout_ns) {
        reset();
        mpk::Machine m{};
        m.tasks = tasks_.data();
        m.ops = ops_.data();
        m.events = events_.data();
        m.tensors = tensors_.data();
        m.list_begin = begin_.data();
        m.list = own_.data();
        m.counters = counters_.data();
        m.queue = {slots_.data(), ready_.data(), words_.data(), words_.data() + 32, toy::queue_capacity};
        m.step.live = live_.data();
        m.step.position = stamp_.data();
        m.step.rows_of = rows_of_.data();
        m.output.count = faults_.data();
        m.report = report_.data();
        m.timeout_ns = timeout_ns;
        m.rank = 3;
        m.workers = workers_;
        m.batch = toy::batch;
        m.context = steps;
        for (AnyArray* array : AnyArray::all()) array->push();
        const std::uint64_t start = now();
        launch(m);
        const bool quick = now() - start < 10'000'000'000;
        for (AnyArray* array : AnyArray::all()) array->pull();
        return quick;
    }

    // Asks an event for one trigger more than it gets.
    void break_event(std::uint32_t event) { ++events_[event].threshold; }
    std::uint32_t threshold(std::uint32_t event) const { return events_[event].threshold; }
    // Says that the queue holds one task more than is ever put into it.
    void announce_lost_task() { announced_ = 1; }
    void mend() {
        events_.assign(list_.events);
        announced_ = 0;
    }

    std::uint32_t faults() const { return faults_[0]; }
    std::uint32_t steps() const { return stamp_[0] - 1; }
    const mpk::Report& report() const { return report_[0]; }
    const mpk::TaskList& list() const { return list_; }

private:
    static std::uint64_t now() {
        const auto time = std::chrono::steady_clock::now().time_since_epoch();
        return static_cast<std::uint64_t>(std::chrono::nanoseconds(time).count());
    }

    void reset() {
        counters_.assign(std::vector<std::uint32_t>(counters_.size()));
        slots_.assign(std::vector<std::uint64_t>(slots_.size()));
        words_.assign(std::vector<std::uint32_t>(words_.size()));
        ready_[0] = announced_;
        live_[0] = 1;
        stamp_[0] = 1;
        for (std::uint32_t s = 0; s < toy::batch; ++s) rows_of_[s] = toy::has_rows(1, s) ? 1 : 0;
        faults_[0] = 0;
        report_[0] = {};
    }

    void launch(const mpk::Machine& m) {
#if PK_CUDA
        void* arguments[] = {const_cast<mpk::Machine*>(&m)};
        require(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(&toy::work), dim3(workers_),
                                            dim3(mpk::worker_threads), arguments, 0, nullptr),
                "launch");
        require(cudaDeviceSynchronize(), "workers");
#else
        std::vector<std::thread> threads;
        for (std::uint32_t w = 0; w < workers_; ++w) {
            threads.emplace_back([&m, w] { mpk::worker_main<toy::Program>(m, w, nullptr); });
        }
        for (std::thread& thread : threads) thread.join();
#endif
    }

    mpk::TaskList list_;
    std::uint32_t workers_;
    Array<mpk::Task> tasks_;
    Array<mpk::OpDesc> ops_;
    Array<mpk::EventDesc> events_;
    Array<std::uint32_t> begin_, own_, counters_;
    Array<std::uint64_t> slots_;
    Array<std::uint32_t> words_;
    Array<std::int32_t> ready_;
    std::int32_t announced_ = 0;
    Array<std::uint32_t> live_, stamp_, rows_of_, faults_;
    Array<mpk::Report> report_;
    Array<std::uint32_t> buffers_;
    Array<void*> tensors_;
};

inline void list_case(Suite& suite) {
    Worst worst;
    for (std::uint32_t workers : {1u, 2u, 5u, 13u, 20u}) {
        const mpk::TaskList list = mpk::make_task_list(toy::plan(), workers);
        std::vector<std::uint32_t> seen(list.tasks.size());
        worst.same(list.begin.size() == workers + 1, workers);
        for (std::uint32_t w = 0; w < workers; ++w) {
            for (std::uint32_t i = list.begin[w]; i < list.begin[w + 1]; ++i) {
                ++seen[list.list[i]];
                worst.same(i == list.begin[w] || list.list[i - 1] < list.list[i], i);
            }
        }
        for (std::size_t t = 0; t < seen.size(); ++t) {
            worst.same(seen[t] == (list.tasks[t].launch == mpk::Launch::aot ? 1u : 0u), t);
        }
        // Task 3 of the first run has slot 3, and of the fourth run slot 6.
        worst.same(std::find(list.list.begin() + list.begin[3 % workers],
                             list.list.begin() + list.begin[3 % workers + 1],
                             3u) != list.list.begin() + list.begin[3 % workers + 1],
                   workers);
        const std::uint32_t mixed = list.events[4].first;
        worst.same(list.events[4].count == toy::batch && list.tasks[mixed].launch == mpk::Launch::jit, mixed);
        worst.same(list.events[3].count == 0 && list.events[1].count == toy::batch, 3);
    }
    suite.check("task lists", worst.good(), worst.detail());
}

inline void protocol_cases(Suite& suite, const std::vector<std::uint32_t>& worker_counts,
                           std::uint32_t steps) {
    constexpr std::uint64_t patient = 20'000'000'000, hasty = 50'000'000;
    list_case(suite);
    for (std::uint32_t workers : worker_counts) {
        ToyMachine machine(workers);
        const std::string name = " on " + std::to_string(workers) + " workers";
        const auto healthy = [&] {
            return machine.report().state == 0 && machine.faults() == 0 && machine.steps() == steps;
        };
        machine.run(steps, patient);
        suite.check(
            std::to_string(steps) + " steps" + name, healthy(),
            std::to_string(machine.faults()) + " faults, " + std::to_string(machine.steps()) + " steps");

        // Event 3 wants one more than comes: its readers, or those who wait for what they make, give up.
        machine.break_event(3);
        const bool back = machine.run(steps, hasty);
        const mpk::Report& r = machine.report();
        const bool whole = r.state == 2 && r.rank == 3 && r.worker < workers && r.seen < r.expected;
        bool named = whole && r.event >= 3 && r.step == 0 && r.expected == machine.threshold(r.event) &&
                     r.task < machine.list().tasks.size();
        if (named) {
            const mpk::Task& task = machine.list().tasks[r.task];
            named = task.op == r.op && task.wait == r.event && (r.event != 3 || r.seen == toy::batch);
        }
        // A worker with nothing of its own waits for the end of the step.
        const bool end_of_step =
            whole && r.event == 0 && r.expected == 1 && r.step == 1 && r.task == mpk::no_task;
        suite.check("a wait that runs out of time" + name, back && (named || end_of_step),
                    "event " + std::to_string(r.event) + " expected " + std::to_string(r.expected) +
                        " seen " + std::to_string(r.seen) + " step " + std::to_string(r.step));

        machine.mend();
        machine.run(steps, patient);
        suite.check("afterwards " + std::to_string(steps) + " steps" + name, healthy());

        // Somebody holds a ticket whose slot stays empty: that wait is bounded too. One worker alone fills
        // the queue before it looks there, and never meets the empty slot.
        machine.announce_lost_task();
        const bool released = machine.run(steps, hasty);
        suite.check("a task that never comes" + name,
                    released && (machine.report().state == 2 || (workers == 1 && healthy())));
        machine.mend();
        machine.run(steps, patient);
        suite.check("afterwards again " + std::to_string(steps) + " steps" + name, healthy());
    }
}

#if !PK_CUDA
// A worker that was stopped for longer than the limit has not waited for it.
inline void watchdog_cases(Suite& suite) {
    using namespace std::chrono_literals;
    using Clock = std::chrono::steady_clock;
    static constexpr auto limit = 80ms;
    mpk::Watchdog watchdog(std::chrono::nanoseconds(limit).count());
    bool early = false;
    for (int stop = 0; stop < 3; ++stop) {
        for (int poll = 0; poll < 100; ++poll) early = early || watchdog.expired(7);
        std::this_thread::sleep_for(2 * limit);
    }
    suite.check("a stopped worker does not run out of time", !early);

    watchdog.expired(8);
    const auto start = Clock::now();
    while (!watchdog.expired(8) && Clock::now() - start < 10s) pk::pause(watchdog.polls());
    const auto waited = Clock::now() - start;
    suite.check("a waiting worker does", waited >= limit - 1ms && waited < 10s);
}
#endif

}  // namespace testing
