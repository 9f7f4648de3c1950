// From a plan's tables to what workers read: tasks one by one, a list for each worker, and the events' tasks
// that the scheduler has to hand out. Host code, run when a model is created.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mpk/descriptors.hpp"

namespace mpk {

struct TaskList {
    std::vector<Task> tasks;        // in linear order
    std::vector<EventDesc> events;  // [first, first + count) is the least range with all just-in-time tasks
    std::vector<std::uint32_t>
        begin;                        // [workers + 1]: worker w runs list[begin[w]] .. list[begin[w + 1] - 1]
    std::vector<std::uint32_t> list;  // ahead-of-time tasks, linear order within a worker
};

inline std::vector<Task> expand_runs(const Plan& plan) {
    std::vector<Task> tasks;
    for (std::uint32_t r = 0; r < plan.run_count; ++r) {
        const TaskRun& run = plan.runs[r];
        for (std::uint32_t i = 0; i < run.count; ++i) {
            const std::uint32_t begin = run.begin + i * run.step;
            tasks.push_back({begin, std::min(begin + run.width, run.limit), run.index + i * run.index_step,
                             run.wait, run.trigger, run.op, run.launch});
        }
    }
    return tasks;
}

inline TaskList make_task_list(const Plan& plan, std::uint32_t workers) {
    TaskList result;
    result.tasks = expand_runs(plan);

    std::vector<std::vector<std::uint32_t>> lists(workers);
    std::uint32_t task = 0;
    for (std::uint32_t r = 0; r < plan.run_count; ++r) {
        const TaskRun& run = plan.runs[r];
        for (std::uint32_t i = 0; i < run.count; ++i, ++task) {
            if (run.launch == Launch::aot) lists[(run.slot + i) % plan.slots % workers].push_back(task);
        }
    }
    for (const auto& list : lists) {
        result.begin.push_back(static_cast<std::uint32_t>(result.list.size()));
        result.list.insert(result.list.end(), list.begin(), list.end());
    }
    result.begin.push_back(static_cast<std::uint32_t>(result.list.size()));

    for (std::uint32_t e = 0; e < plan.event_count; ++e) {
        EventDesc event = plan.events[e];
        std::uint32_t first = event.first, last = event.first + event.count;
        while (first < last && result.tasks[first].launch == Launch::aot) ++first;
        while (last > first && result.tasks[last - 1].launch == Launch::aot) --last;
        event.first = first;
        event.count = last - first;
        result.events.push_back(event);
    }
    return result;
}

}  // namespace mpk
