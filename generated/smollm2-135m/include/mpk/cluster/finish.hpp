// The end of a step: the next token of every sequence that samples, then the rows of the next step.
//
// Each block has released its part of the step (Best of every sampler and `done`). Block s chooses for
// sequence s; block 0 waits for all of them and for all blocks to be done, advances the sequences and
// releases the epoch, on which all blocks wait.
#pragma once

#include "mpk/cluster/logits.hpp"
#include "mpk/context.hpp"

namespace mpk::cluster {

#if PK_SM90

// The rows of the step that is to begin, from global memory; 0 rows if it is not for this kernel. One warp
// of a thread that has acquired the epoch.
template <class D>
PK_DEVICE void read_board(const Machine& m, const Setup& setup, StepBoard& board, std::uint32_t lane) {
    const std::uint32_t live = pk::load_relaxed(m.step.live);
    std::uint32_t rows = *m.step.row_count;
    if (live == 0 || rows < setup.fewest_rows) rows = 0;
    const bool mine = lane < rows && lane < most_rows;
    std::int32_t sampler = -1;
    if (mine) {
        const std::uint32_t sequence = m.step.sequence[lane], position = m.step.position[lane];
        const std::uint32_t first_row = m.step.first_row[sequence];
        sampler = m.step.sample_row[sequence] == static_cast<std::int32_t>(lane) ? static_cast<std::int32_t>(sequence) : -1;
        board.sequence[lane] = sequence;
        board.position[lane] = position;
        board.first[lane] = position - (lane - first_row);
        board.token[lane] = static_cast<const std::int32_t*>(m.tensors[D::tokens])[lane];
        board.sampler[lane] = sampler;
    }
    const std::uint32_t samplers = __ballot_sync(~0u, sampler >= 0);
    if (lane == 0) {
        board.rows = rows;
        board.samplers = __popc(samplers);
    }
}

// Acquires the step `step` of the call.
PK_DEVICE bool epoch_reached(const Setup& setup, std::uint32_t step) {
    return pk::load_acquire(setup.epoch) >= step;
}

namespace detail {

// The body of a task outside the task list. All consumers of the block.
template <class TaskBody>
PK_DEVICE void run_alone(const Machine& m, void* const* operands, std::uint32_t begin, void* scratch) {
    const Task task = {begin, begin + 1, 0, 0, 0, 0, mpk::Launch::aot};
    const OpDesc op = {};
    Context context{m, task, op, operands, scratch};
    TaskBody::run(context);
}

// Sequence `blockIdx.x`, if it samples in this step.
template <class Program, class B>
PK_DEVICE void choose(B& block) {
    using D = typename B::D;
    const Machine& m = block.m;
    const std::uint32_t s = blockIdx.x, blocks = gridDim.x, lane = block.lane();
    bool samples = false;
    std::uint32_t position = 0;
    for (std::uint32_t row = 0; row < block.rows(); ++row) {
        if (block.board().sampler[row] != static_cast<std::int32_t>(s)) continue;
        samples = true;
        position = block.board().position[row] + 1;  // of the token to choose
    }
    if (!samples) return;
    const Sequence& sequence = m.sequences[s];
    const bool draws = sequence.temperature > 0 && position >= sequence.prompt_length;
    if (block.warp() == 0) {
        Candidate best;
        for (std::uint32_t b = lane; b < blocks; b += 32) {
            const Best* part = &block.setup.best[std::uint64_t{s} * blocks + b];
            block.patience.until([&] { return pk::load_acquire(&part->epoch) == block.step + 1; }, block.op, block.step, 7);
            best.add(Candidate{part->most, part->sum, part->token});
        }
        PK_UNROLL
        for (std::uint32_t step = 16; step != 0; step /= 2) best.add_lane(step, lane);
        if (lane == 0 && !draws) {
            const float* logits = static_cast<const float*>(m.tensors[D::logits]) + s * std::uint64_t{pk::tile::padded(D::vocab)};
            std::uint32_t token = best.token;
            float logit = best.most;
            if (position < sequence.prompt_length) {
                token = static_cast<std::uint32_t>(m.prompts[std::uint64_t{s} * m.context + position]);
                logit = logits[token];
            }
            static_cast<std::int32_t*>(m.tensors[D::sampled])[s] = static_cast<std::int32_t>(token);
            m.step.sampled_logprob[s] = logit - best.most - logf(best.sum);
        }
    }
    block.sync();
    if (draws) {
        // Nothing of the layers is in use any more, and peers send nothing before the next step.
        static_assert(Program::Sample::scratch_bytes <= B::L::ring - B::L::hidden);
        void* operands[max_operands] = {m.tensors[D::logits], m.tensors[D::sampled]};
        run_alone<typename Program::Sample>(m, operands, s, block.template at<void>(B::L::hidden));
    }
    block.sync();
    if (block.thread() == 0) pk::add_acq_rel(block.setup.chosen, 1u);
}

}  // namespace detail

// All consumers of all blocks call, after stream_logits or where nothing samples.
template <class Program, class B>
PK_DEVICE void finish_step(B& block, std::uint32_t& chosen) {
    using D = typename B::D;
    const Machine& m = block.m;
    block.refresh();
    block.sync();
    Best* done = &block.setup.best[std::uint64_t{m.batch} * gridDim.x];
    if (block.thread() == 0) pk::store_release(&done[blockIdx.x].epoch, block.step + 1);
    if (blockIdx.x < m.batch) detail::choose<Program>(block);
    chosen += block.board().samplers;
    if (blockIdx.x == 0) {
        if (block.warp() == 0) {
            for (std::uint32_t b = block.lane(); b < gridDim.x; b += 32) {
                block.patience.until([&] { return pk::load_acquire(&done[b].epoch) == block.step + 1; }, block.op, block.step, 7);
            }
            block.patience.until([&] { return pk::load_acquire(block.setup.chosen) == chosen; }, block.op, block.step, 7);
        }
        block.sync();
        void* operands[max_operands] = {m.tensors[D::sampled], m.tensors[D::tokens]};
        detail::run_alone<typename Program::Advance>(m, operands, 0, nullptr);
        block.sync();
        if (block.thread() == 0) pk::store_release(block.setup.epoch, block.step + 1);
    }
}

#endif

}  // namespace mpk::cluster
