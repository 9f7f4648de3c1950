// The end of a step: the next token of every sequence that samples, then the rows of the next step.
//
// Each block releases its part of the step (`done`). The last block waits for all of them, takes the best
// tokens, waits for those that other blocks draw, advances the sequences and releases the epoch, on which all
// blocks wait. It hands the tokens out afterwards: of its cluster, without a group, nothing is expected for a
// while.
#pragma once

#include "mpk/cluster/logits.hpp"
#include "mpk/context.hpp"
#include "pk/ptx/fence.hpp"
#include "pk/ptx/shared_flag.hpp"

namespace mpk::cluster {

#if PK_SM90

// Whether a step of so many rows is for this kernel: not after the last one, nor after a wait that ran out
// in this kernel or the one before.
template <std::uint32_t R>
PK_DEVICE bool is_mine(const Machine& m, const Setup& setup, std::uint32_t rows) {
    const bool going_on = pk::load_relaxed(m.step.live) != 0 && !failed(m);
    return going_on && rows >= setup.fewest_rows && rows <= R;
}

// The rows of the step that is to begin, from global memory; 0 rows if it is not for this kernel. One warp
// of a thread that has acquired the epoch. What is on the way from memory together is so for all rows that
// there are: nothing waits to learn which the step has.
template <class D, std::uint32_t R>
PK_DEVICE void read_board(const Machine& m, const Setup& setup, StepBoard& board, std::uint32_t lane) {
    const std::uint32_t row = min(lane, m.rows - 1);
    const std::uint32_t count = *m.step.row_count;
    const bool is_ours = is_mine<R>(m, setup, count);
    const std::uint32_t sequence = min(m.step.sequence[row], m.batch - 1);
    const std::uint32_t position = min(m.step.position[row], m.context - 1);
    const std::int32_t token = setup.tokens[row];

    const std::uint32_t next = min(position + 1, m.context - 1);
    const std::uint32_t first_row = m.step.first_row[sequence];
    const std::int32_t sample_row = m.step.sample_row[sequence];
    const std::int32_t given = m.prompts[std::uint64_t{sequence} * m.context + next];
    const std::uint32_t prompt_length = m.sequences[sequence].prompt_length;
    const float temperature = m.sequences[sequence].temperature;
    const std::uint32_t page =
        m.kv.page_table[std::uint64_t{sequence} * m.kv.pages_per_sequence + position / D::kv_page];

    const std::uint32_t rows = is_ours ? count : 0;
    const bool mine = lane < rows && lane < most_rows;
    const bool samples = mine && sample_row == static_cast<std::int32_t>(lane);
    const bool forced = position + 1 < prompt_length;  // the next token is the prompt's
    const std::uint32_t first = position - (lane - first_row);
    if (mine) {
        board.given[lane] = forced ? given : -1;
        board.page[lane] = page;
        board.sequence[lane] = sequence;
        board.position[lane] = position;
        board.first[lane] = first;
        board.token[lane] = token;
        board.sampler[lane] = samples ? static_cast<std::int32_t>(sequence) : -1;
    }
    const std::uint32_t samplers = __ballot_sync(~0u, samples);
    const std::uint32_t drawing = __ballot_sync(~0u, samples && !forced && temperature > 0);
    const std::uint32_t chunked = __ballot_sync(~0u, mine && first != position);
    if (lane == 0) {
        board.chunked = chunked;
        board.rows = rows;
        board.samplers = __popc(samplers);
        board.drawing = drawing;
    }
}

// What this block's member has of the step's attention; then the board is complete, and the loader may read
// it. All consumers, after read_board: one warp's work, but not a branch of it with a barrier inside, which
// would part its lanes for the compiler (uniform). The release hands on, too, what the epoch's acquire has
// brought.
template <class B>
PK_DEVICE void share_attention(B& block) {
    using D = typename B::D;
    using L = typename B::L;
    StepBoard& board = block.control().step;
    const std::uint32_t lane = block.lane();
    const std::uint32_t rows = uniform(board.rows);
    const bool is_it = block.warp() == consumer_warps - 1;
    {
        Deal<D::jit_attention> deal(board.position, rows, block.member());
        for (std::uint32_t row = 0; row < rows; ++row) {
            const Spans spans(board.position[row]);
            std::uint32_t owner;
            Part mine = deal.next(spans, owner);
            // Of one short row every member computes all, which is quicker than to exchange results.
            if (B::rows_room == 1 && spans.length == 1) mine = {0, spans.count};
            if (is_it && row == lane) {
                board.share[row] = {static_cast<std::uint8_t>(mine.begin),
                                    static_cast<std::uint8_t>(mine.end),
                                    static_cast<std::uint8_t>(spans.count), static_cast<std::uint8_t>(owner)};
            }
        }
    }
    __syncwarp();
    if (is_it && lane == 0) {
        board.stretches = list_stretches(board.share, board.position, board.rows, L::lane_slots,
                                         block.template at<Stretch>(L::stretches));
        pk::ptx::store_release_shared(&block.control().ready, block.step() + 1);
    }
}

// Acquires the step `step` of the call.
PK_DEVICE bool epoch_reached(const Setup& setup, std::uint32_t step) {
    return pk::load_acquire(setup.epoch) >= step;
}

namespace detail {

// The body of a task outside the task list. All consumers of the block.
template <class TaskBody, class... More>
PK_DEVICE void run_alone(const Machine& m, void* const* operands, std::uint32_t begin, void* scratch,
                         More... more) {
    const Task task = {begin, begin + 1, 0, 0, 0, 0, mpk::Launch::aot};
    const OpDesc op = {};
    Context context{m, task, op, operands, scratch};
    TaskBody::run(context, more...);
}

// Waits until all blocks have done the step and found(): load() is called before each look at the blocks, so
// that all of it is on the way together. One warp; its lanes then see what the blocks wrote.
template <class B, class Load, class Found>
PK_DEVICE void wait_for_blocks(B& block, Load load, Found found) {
    constexpr std::uint32_t most = most_clusters * members / 32;
    const auto all = [&] {
        load();
        std::uint32_t done[most];
        PK_UNROLL
        for (std::uint32_t i = 0; i < most; ++i) {
            // Past the last block the last one again.
            done[i] = pk::load_relaxed(&block.setup.done[min(block.lane() + i * 32, gridDim.x - 1)]);
        }
        bool reached = found();
        PK_UNROLL
        for (std::uint32_t i = 0; i < most; ++i) reached = reached && done[i] == block.step() + 1;
        return reached;
    };
    block.patience.until_all(all, block.op, block.step());
    // Each lane acquires what it has polled; the warp barrier hands it to the other lanes.
    pk::ptx::fence_acq_rel();
    __syncwarp();
}
template <class B>
PK_DEVICE void wait_for_blocks(B& block) {
    wait_for_blocks(block, [] {}, [] { return true; });
}

// The token of row `row`, which samples: the best one, or in the prompt the one that is given. One warp.
template <class B>
PK_DEVICE void choose_best(B& block, std::uint32_t row) {
    using D = typename B::D;
    const Machine& m = block.m;
    const std::uint32_t s = static_cast<std::uint32_t>(block.board().sampler[row]);
    // What a block has found carries its step: looked at together with whether the block has done it.
    constexpr std::uint32_t most = most_clusters * members / 32;
    uint4 parts[most];
    wait_for_blocks(
        block,
        [&] {
            PK_UNROLL
            for (std::uint32_t i = 0; i < most; ++i) {
                const std::uint32_t b = min(block.lane() + i * 32, gridDim.x - 1);
                const Best* part = &block.setup.best[std::uint64_t{s} * gridDim.x + b];
                parts[i] = pk::load_relaxed(reinterpret_cast<const uint4*>(part));
            }
        },
        [&] {
            bool found = true;
            PK_UNROLL
            for (std::uint32_t i = 0; i < most; ++i) found = found && parts[i].w == block.step() + 1;
            return found;
        });
    Candidate best;
    PK_UNROLL
    for (std::uint32_t i = 0; i < most; ++i) {
        if (block.lane() + i * 32 >= gridDim.x) continue;
        best.add(Candidate{__uint_as_float(parts[i].x), __uint_as_float(parts[i].y), parts[i].z});
    }
    PK_UNROLL
    for (std::uint32_t step = 16; step != 0; step /= 2) best.add_lane(step, block.lane());
    if (block.lane() != 0) return;
    std::uint32_t token = best.token < D::vocab ? best.token : 0;  // no logit is a number: any token
    float logit = best.most;
    if (block.board().given[row] >= 0) {
        token = static_cast<std::uint32_t>(block.board().given[row]);
        logit = block.setup.logits[s * std::uint64_t{pk::tile::padded(D::vocab)} + token];
    }
    block.setup.sampled[s] = static_cast<std::int32_t>(token);
    m.step.sampled_logprob[s] = logit - best.most - logf(best.sum);
}

}  // namespace detail

// All consumers of all blocks call, after the stream of the logits or where nothing samples.
template <class Program, class B>
PK_DEVICE void finish_step(B& block) {
    using D = typename B::D;
    const Machine& m = block.m;
    block.enter(D::sample_op);
    block.sync();  // what all threads wrote comes before the release
    if (block.thread() == 0) pk::store_release(&block.setup.done[block.number()], block.step() + 1);
    const bool leads = block.number() == gridDim.x - 1;
    if (block.number() >= most_rows && !leads) {
        block.enter(0);
        return;
    }
    // Block s draws for sequence s: that takes a while.
    for (std::uint32_t row = 0; row < block.rows(); ++row) {
        if ((block.board().drawing >> row & 1) == 0) continue;
        if (block.board().sampler[row] != static_cast<std::int32_t>(block.number())) continue;
        if (block.warp() == 0) detail::wait_for_blocks(block);
        block.sync();
        // Nothing of the layers is in use any more, and peers send nothing before the next step.
        static_assert(Program::Sample::scratch_bytes <= B::L::draw_bytes);
        void* operands[max_operands] = {block.setup.logits, block.setup.sampled};
        detail::run_alone<typename Program::Sample>(m, operands, block.number(),
                                                    block.template at<void>(B::L::hidden));
        pk::ptx::fence_proxy_async_shared();  // before peers copy to where it was drawn
        block.sync();
        if (block.thread() == 0) pk::add_acq_rel(block.setup.drawn, 1u);
    }
    if (leads) {
        bool waited = block.warp() != 0;  // the first warp has to: it releases the epoch
        for (std::uint32_t row = block.warp(); row < block.rows(); row += consumer_warps) {
            const bool draws = (block.board().drawing >> row & 1) != 0;
            if (block.board().sampler[row] < 0 || draws) continue;
            detail::choose_best(block, row);
            waited = true;
        }
        if (!waited) detail::wait_for_blocks(block);
        const std::uint32_t drawn = block.control().drawn + __popc(block.board().drawing);
        if (block.board().drawing != 0 && block.warp() == 0) {
            block.patience.until_all([&] { return pk::load_acquire(block.setup.drawn) == drawn; }, block.op,
                                     block.step());
        }
        // After a wait that ran out there is no token to hand out: everyone leaves.
        const bool lost = block.any(block.patience.gone() || failed(m));
        if (block.thread() == 0) block.control().drawn = drawn;
        block.enter(D::advance_op);
        if (!lost) {
            void* operands[max_operands] = {block.setup.sampled, block.setup.tokens};
            detail::run_alone<typename Program::Advance>(m, operands, 0, nullptr, [&] {
                block.sync();
                if (block.thread() == 0) pk::store_release(block.setup.epoch, block.step() + 1);
            });
        }
    }
    block.enter(0);  // the step after, if there is one, begins with the embedding
}

#endif

}  // namespace mpk::cluster
