// The plan's tables where the workers read them: tasks after expansion, the list of each worker, and the
// address of every tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpk/descriptors.hpp"
#include "mpk/machine.hpp"
#include "mpk/task_list.hpp"

namespace mpk::engine {

template <class Backend>
class Tables {
public:
    Tables() = default;

    // `tokens` is where the tensor of that name lies; the others lie at their offset from `weights` and
    // `arena`.
    Tables(const Plan& plan, const Backend& backend, const void* weights, void* arena, void* tokens)
        : addresses_(tensor_addresses(plan, weights, arena, tokens)) {
        const TaskList list = make_task_list(plan, backend.workers());
        tasks_ = put(backend, list.tasks.data(), list.tasks.size());
        ops_ = put(backend, plan.ops, plan.op_count);
        events_ = put(backend, list.events.data(), list.events.size());
        tensors_ = put(backend, addresses_.data(), addresses_.size());
        list_begin_ = put(backend, list.begin.data(), list.begin.size());
        list_ = put(backend, list.list.data(), list.list.size());
    }

    void attach(Machine& machine) const {
        machine.tasks = static_cast<const Task*>(tasks_.data());
        machine.ops = static_cast<const OpDesc*>(ops_.data());
        machine.events = static_cast<const EventDesc*>(events_.data());
        machine.tensors = static_cast<void* const*>(tensors_.data());
        machine.list_begin = static_cast<const std::uint32_t*>(list_begin_.data());
        machine.list = static_cast<const std::uint32_t*>(list_.data());
    }

    void* tensor(std::uint32_t index) const { return addresses_[index]; }
    std::size_t bytes() const { return bytes_; }

private:
    using Buffer = typename Backend::Buffer;

    static std::vector<void*> tensor_addresses(const Plan& plan, const void* weights, void* arena,
                                               void* tokens) {
        std::vector<void*> addresses;
        for (std::uint32_t i = 0; i < plan.tensor_count; ++i) {
            const TensorDesc& tensor = plan.tensors[i];
            // Tasks only read weights; the table has one type of pointer for all tensors.
            void* base = tensor.space == Space::weight ? const_cast<void*>(weights) : arena;
            addresses.push_back(i == plan.tokens ? tokens : static_cast<std::byte*>(base) + tensor.offset);
        }
        return addresses;
    }

    template <class T>
    Buffer put(const Backend& backend, const T* rows, std::size_t count) {
        Buffer buffer = backend.allocate(count * sizeof(T), "the tables of the plan");
        backend.upload(buffer.data(), rows, count * sizeof(T));
        bytes_ += count * sizeof(T);
        return buffer;
    }

    std::vector<void*> addresses_;
    std::size_t bytes_ = 0;
    Buffer tasks_, ops_, events_, tensors_, list_begin_, list_;
};

}  // namespace mpk::engine
