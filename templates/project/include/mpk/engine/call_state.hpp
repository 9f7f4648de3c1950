// Everything that a call starts from and that changes while it runs, in one block: a GPU gets it in one copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpk/descriptors.hpp"
#include "mpk/engine/pages.hpp"
#include "mpk/machine.hpp"

namespace mpk::engine {

// The parts of the block, as pointers into it. The same block on the host (its image) and on the device has
// the same layout, so the pointers of one are those of the other moved by the difference of the bases.
struct CallState {
    std::uint32_t* counters;
    Queue queue;
    Report* report;
    Step step;
    Sequence* sequences;
    std::uint32_t* page_table;
    std::int32_t* tokens;     // the tensor `tokens` of the plan
    std::int32_t* prompts;    // last, so that a copy may leave out the prompts of sequences not in use
    std::size_t fixed_bytes;  // up to the prompts
    std::size_t bytes;

    // Lay the parts out from `base`, which is aligned to 256 bytes; null to learn the size only.
    static CallState at(const Plan& plan, void* base) {
        Carver carver{reinterpret_cast<std::uintptr_t>(base)};
        CallState state = {};
        state.counters = carver.take<std::uint32_t>(plan.event_count);
        state.queue.slots = carver.take<std::uint64_t>(plan.queue_capacity);
        // Each word of the queue has a cache line of its own, since different workers move them.
        state.queue.ready = carver.take<std::int32_t>(1);
        state.queue.head = carver.take<std::uint32_t>(1);
        state.queue.tail = carver.take<std::uint32_t>(1);
        state.queue.capacity = plan.queue_capacity;
        state.report = carver.take<Report>(1);
        state.step.row_count = carver.take<std::uint32_t>(1);
        state.step.live = carver.take<std::uint32_t>(1);
        state.step.sequence = carver.take<std::uint32_t>(plan.rows);
        state.step.position = carver.take<std::uint32_t>(plan.rows);
        state.step.first_row = carver.take<std::uint32_t>(plan.batch);
        state.step.rows_of = carver.take<std::uint32_t>(plan.batch);
        state.step.sample_row = carver.take<std::int32_t>(plan.batch);
        state.step.sampled_logprob = carver.take<float>(plan.batch);
        state.sequences = carver.take<Sequence>(plan.batch);
        state.page_table = carver.take<std::uint32_t>(std::size_t{plan.batch} * pages_per_sequence(plan));
        state.tokens =
            carver.take<std::int32_t>(plan.tensors[plan.tokens].rows * plan.tensors[plan.tokens].stride);
        state.prompts = carver.take<std::int32_t>(0);
        state.fixed_bytes = carver.at - reinterpret_cast<std::uintptr_t>(base);
        state.bytes = state.fixed_bytes + prompt_bytes(plan, plan.batch);
        return state;
    }

    static std::size_t prompt_bytes(const Plan& plan, std::uint32_t sequences) {
        return std::size_t{sequences} * plan.context * sizeof(std::int32_t);
    }

    // Bytes that a call of `count` sequences uses.
    std::size_t used_bytes(const Plan& plan, std::uint32_t count) const {
        return fixed_bytes + prompt_bytes(plan, count);
    }

    // Point the fields of `machine` that live in the block here.
    void attach(Machine& machine) const {
        machine.counters = counters;
        machine.queue = queue;
        machine.report = report;
        machine.step = step;
        machine.sequences = sequences;
        machine.kv.page_table = page_table;
        machine.prompts = prompts;
    }

    // Zero all but the prompts. The block begins with the counters.
    void clear() const { std::memset(static_cast<void*>(counters), 0, fixed_bytes); }

private:
    // Hands out consecutive parts, each on a cache line of its own.
    struct Carver {
        std::uintptr_t at;
        template <class T>
        T* take(std::size_t count) {
            static constexpr std::uintptr_t alignment = 128;
            static_assert(alignof(T) <= alignment);
            at = (at + alignment - 1) / alignment * alignment;
            T* part = reinterpret_cast<T*>(at);
            at += count * sizeof(T);
            return part;
        }
    };
};

}  // namespace mpk::engine
