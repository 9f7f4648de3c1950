// A machine around a single task.
#pragma once

#include <initializer_list>
#include <vector>

#include "mpk/context.hpp"
#include "support/memory.hpp"

namespace testing {

#if PK_CUDA
template <class TaskType>
__global__ void __launch_bounds__(mpk::worker_threads, 1)
    run_task(const __grid_constant__ mpk::Machine m, const __grid_constant__ mpk::TaskSlot slot,
             std::uint32_t bytes) {
    extern __shared__ __align__(128) unsigned char scratch[];
    for (std::uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) scratch[i] = 0xff;
    __syncthreads();
    mpk::Context context{m, slot.task, slot.op, slot.operands, scratch};
    TaskType::run(context);
}
#endif

struct Row {
    std::uint32_t sequence, position;
};

class Fixture {
public:
    Fixture(std::uint32_t batch, std::uint32_t rows, std::uint32_t context)
        : row_count(1),
          live(1),
          sequence(rows),
          position(rows),
          first_row(batch),
          rows_of(batch),
          sample_row(batch, -1),
          logprob(batch, poison),
          sequences(batch),
          prompts(std::size_t{batch} * context),
          count(batch),
          finish(batch),
          tokens(std::size_t{batch} * context, -7),
          logprobs(std::size_t{batch} * (context + 1), poison) {
        m.step = {row_count.data(), live.data(),    sequence.data(),   position.data(),
                  first_row.data(), rows_of.data(), sample_row.data(), logprob.data()};
        m.sequences = sequences.data();
        m.prompts = prompts.data();
        m.output = {count.data(), finish.data(), tokens.data(), logprobs.data()};
        m.batch = batch;
        m.context = context;
        m.rows = rows;
        m.workers = 1;
    }

    // Fills the step's tables; every sequence with rows samples from its last one.
    void set_rows(const std::vector<Row>& rows) {
        for (std::uint32_t s = 0; s < m.batch; ++s) {
            first_row[s] = rows_of[s] = 0;
            sample_row[s] = -1;
        }
        row_count[0] = static_cast<std::uint32_t>(rows.size());
        for (std::uint32_t r = 0; r < rows.size(); ++r) {
            sequence[r] = rows[r].sequence;
            position[r] = rows[r].position;
            if (rows_of[rows[r].sequence]++ == 0) first_row[rows[r].sequence] = r;
            sample_row[rows[r].sequence] = static_cast<std::int32_t>(r);
        }
    }

    // `count` rows of sequence 0 from position 0.
    void set_row_count(std::uint32_t count) {
        std::vector<Row> rows;
        for (std::uint32_t r = 0; r < count; ++r) rows.push_back({0, r});
        set_rows(rows);
    }

    // Runs one task to its end, with scratch that holds garbage.
    template <class TaskType>
    void run(mpk::Task task, std::initializer_list<void*> operands, std::int16_t layer = -1) {
        mpk::TaskSlot slot{};
        slot.task = task;
        slot.op.layer = layer;
        std::size_t i = 0;
        for (void* operand : operands) slot.operands[i++] = operand;
        for (AnyArray* array : AnyArray::all()) array->push();
#if PK_CUDA
        constexpr std::uint32_t bytes = TaskType::scratch_bytes;
        require(cudaFuncSetAttribute(run_task<TaskType>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                "shared memory");
        run_task<TaskType><<<1, mpk::worker_threads, bytes>>>(m, slot, bytes);
        require(cudaGetLastError(), "launch");
        require(cudaDeviceSynchronize(), "task");
#else
        std::vector<std::uint64_t> scratch(TaskType::scratch_bytes / 8 + 16, ~std::uint64_t{0});
        const auto address = reinterpret_cast<std::uintptr_t>(scratch.data());
        void* aligned = reinterpret_cast<void*>((address + 63) / 64 * 64);
        mpk::Context context{m, slot.task, slot.op, slot.operands, aligned};
        TaskType::run(context);
#endif
        for (AnyArray* array : AnyArray::all()) array->pull();
    }

    mpk::Machine m{};
    Array<std::uint32_t> row_count, live, sequence, position, first_row, rows_of;
    Array<std::int32_t> sample_row;
    Array<float> logprob;
    Array<mpk::Sequence> sequences;
    Array<std::int32_t> prompts;
    Array<std::uint32_t> count, finish;
    Array<std::int32_t> tokens;
    Array<float> logprobs;
};

inline mpk::Task task_over(std::uint32_t begin, std::uint32_t end, std::uint32_t index = 0) {
    return {begin, end, index, 0, 0, 0, mpk::Launch::aot};
}

}  // namespace testing
