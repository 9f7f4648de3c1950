// A plan made by hand whose tasks check the order that the runtime promises.
#pragma once

#include <iterator>

#include "mpk/task_list.hpp"
#include "mpk/worker.hpp"

namespace testing {

// Every task checks that what it reads was written in this step and stamps its own cell. Cells are plain
// memory: a missing order between two tasks is a data race, and a wrong stamp.
namespace toy {

inline constexpr std::uint32_t batch = 6, wide = 11, words = 32, cells = 16;

enum Variant : std::uint16_t { from_nothing, from_all, from_active, each_sequence, advance };

// Whether a sequence has rows in a step: some steps have none, some all.
PK_HOST_DEVICE bool has_rows(std::uint32_t step, std::uint32_t sequence) {
    const std::uint32_t hash = (step * 2654435761u) >> 20;
    return step % 7 == 0 ? step % 2 == 0 : (hash >> sequence & 1) != 0;
}

PK_DEVICE void fault(const mpk::Machine& m) {
    pk::add_relaxed(m.output.count, 1u);
}

PK_DEVICE void check(const mpk::Context& ctx, std::uint32_t stamp, std::uint32_t count, bool only_active) {
    const auto* in = ctx.tensor<const std::uint32_t>(0);
    for (std::uint32_t i = pk::thread_rank(); i < count * words; i += pk::block_threads) {
        const std::uint32_t cell = i / words;
        if (only_active && ctx.machine.step.rows_of[cell] == 0) continue;
        if (in[i] != stamp) fault(ctx.machine);
    }
}

PK_DEVICE void advance_step(const mpk::Machine& m, std::uint32_t stamp) {
    pk::sync_block();
    if (pk::thread_rank() != 0) return;
    m.step.position[0] = stamp + 1;
    for (std::uint32_t s = 0; s < batch; ++s) m.step.rows_of[s] = has_rows(stamp + 1, s) ? 1 : 0;
    pk::store_relaxed(m.step.live, stamp < m.context ? 1u : 0u);
}

struct Program {
    static constexpr std::uint32_t scratch_bytes = 0;

    PK_DEVICE static void run(mpk::Context& ctx) {
        const std::uint32_t stamp = ctx.machine.step.position[0];
        const std::uint32_t begin = ctx.task.begin;
        switch (ctx.op.variant) {
            case from_nothing:
                break;
            case from_all:
                check(ctx, stamp, wide, false);
                break;
            case from_active:
                check(ctx, stamp, batch, true);
                break;
            case each_sequence:
                if (!active(ctx.machine, ctx.task, each_sequence)) return;
                check(ctx, stamp, begin < batch ? 1 : 0, true);
                break;
            default:
                check(ctx, stamp, batch, true);
                return advance_step(ctx.machine, stamp);
        }
        auto* out = ctx.tensor<std::uint32_t>(1);
        for (std::uint32_t w = pk::thread_rank(); w < words; w += pk::block_threads)
            out[begin * words + w] = stamp;
    }

    PK_DEVICE static bool active(const mpk::Machine& m, const mpk::Task& task, std::uint16_t variant) {
        return variant != each_sequence || m.step.rows_of[task.begin] != 0;
    }
};

#if PK_CUDA
__global__ void __launch_bounds__(mpk::worker_threads, 1) work(const __grid_constant__ mpk::Machine m) {
    mpk::worker_main<Program>(m, blockIdx.x, nullptr);
}
#endif

//                op, launch, count, begin, step, width, limit, index, index_step, wait, trigger, slot
inline constexpr mpk::TaskRun runs[] = {
    {0, mpk::Launch::aot, wide, 0, 1, 1, wide, 0, 0, 0, 1, 0},    // first: reads nothing
    {1, mpk::Launch::jit, batch, 0, 1, 1, batch, 0, 0, 1, 2, 0},  // a queue,
    {2, mpk::Launch::jit, batch, 0, 1, 1, batch, 0, 0, 2, 3, 0},  // and at once another
    {3, mpk::Launch::aot, wide, 0, 1, 1, wide, 0, 0, 3, 4, 3},
    {4, mpk::Launch::aot, 3, 6, 1, 1, 9, 0, 0, 4, 5, 1},  // one event releases both kinds
    {5, mpk::Launch::jit, batch, 0, 1, 1, batch, 0, 0, 4, 5, 0},
    {4, mpk::Launch::aot, 2, 9, 1, 1, 11, 0, 0, 4, 5, 2},
    {6, mpk::Launch::aot, 1, 0, 1, 1, 1, 0, 0, 5, 0, 4},
};
//                variant, layer, operands: what is read, what is written
inline constexpr mpk::OpDesc ops[] = {
    {from_nothing, -1, {0, 0}}, {from_all, -1, {0, 1}}, {each_sequence, -1, {1, 2}},
    {from_active, -1, {2, 3}},  {from_all, -1, {3, 4}}, {from_all, -1, {3, 4}},
    {advance, -1, {4, 5}},
};
inline constexpr mpk::EventDesc events[] = {
    {1, 0, wide},
    {wide, wide, batch},
    {batch, wide + batch, batch},
    {batch, wide + 2 * batch, wide},
    {wide, 2 * wide + 2 * batch, 5 + batch},
    {5 + batch, 2 * wide + 3 * batch + 5, 1},
};
inline constexpr std::uint32_t event_count = std::size(events);
inline constexpr std::uint32_t queue_capacity = 32;

inline mpk::Plan plan() {
    mpk::Plan p{};
    p.slots = 13;
    p.runs = runs;
    p.run_count = std::size(runs);
    p.events = events;
    p.event_count = event_count;
    return p;
}

}  // namespace toy

}  // namespace testing
