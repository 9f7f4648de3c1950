// What a task body sees.
#pragma once

#include "mpk/machine.hpp"
#include "pk/platform/block.hpp"

namespace mpk {

inline constexpr std::uint32_t worker_threads = pk::block_threads;  // threads that run one task together

// A task with its operator and the addresses of its operands, fetched before the task's turn comes.
struct TaskSlot {
    Task task;
    OpDesc op;
    void* operands[max_operands];
};

struct Context {
    const Machine& machine;
    const Task& task;
    const OpDesc& op;
    void* const* operands;
    void* scratch;  // Program::scratch_bytes of shared memory (GPU) or of the thread (host), 64-byte aligned

    template <class T>
    PK_DEVICE T* tensor(int slot) const {
        return static_cast<T*>(operands[slot]);
    }
};

}  // namespace mpk
