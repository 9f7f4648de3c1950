// Ends a step: hands out the sampled tokens, retires sequences, and prepares the rows of the next step.
#pragma once

#include "mpk/step.hpp"
#include "mpk/tasks/rows.hpp"
#include "pk/platform/atomic.hpp"

namespace mpk::tasks {

template <class V>
struct Advance : AlwaysActive {
    static constexpr std::uint32_t scratch_bytes = 0;

    PK_DEVICE static void run(Context& ctx) {
        run(ctx, [] {});
    }

    // Calls opened() when the next step is complete, before it hands out the tokens of this one: they go to
    // memory of the host, which takes longer than what the next step must wait for. All threads call.
    template <class Opened>
    PK_DEVICE static void run(Context& ctx, Opened opened) {
        const Machine& m = ctx.machine;
        const auto* sampled = ctx.tensor<const std::int32_t>(V::slot::sampled);
        auto* tokens = ctx.tensor<std::int32_t>(V::slot::tokens);
        const std::uint32_t rank = pk::thread_rank();
        for (std::uint32_t s = rank + pk::block_threads; s < m.batch; s += pk::block_threads) {
            hand_out(m, s, record(m, s, sampled));
        }
        const Result mine = rank < m.batch ? record(m, rank, sampled) : Result{};
        pk::sync_block();
        if (pk::warp() == 0) {
            const std::uint32_t live = choose_rows<WarpLanes>(m, tokens, sampled);
            // Atomic since a worker without tasks may only now look at the step before; ordered by event 0.
            if (pk::lane() == 0) pk::store_relaxed(m.step.live, live);
        }
        opened();
        hand_out(m, rank, mine);
    }

private:
    // What a step has for the caller of one sequence.
    struct Result {
        bool scored = false;     // a log-probability, of the token at `position`
        bool generated = false;  // a token, the last of `count`
        std::uint32_t position = 0, count = 0;
        std::int32_t token = 0;
        float logprob = 0;
        Finish finish = Finish::running;
    };

    PK_DEVICE static Result record(const Machine& m, std::uint32_t s, const std::int32_t* sampled) {
        // All loads before the first branch: on a GPU each takes its time, and the next step waits.
        Sequence& sequence = m.sequences[s];
        const std::uint32_t rows = m.step.rows_of[s], position = sequence.position;
        const std::int32_t sample_row = m.step.sample_row[s], token = sampled[s];
        const float logprob = m.step.sampled_logprob[s];
        const std::uint32_t prompt_length = sequence.prompt_length, generated = sequence.generated;
        const std::uint32_t most = sequence.max_new_tokens, stop_count = sequence.stop_count;

        Result result;
        if (rows == 0) return result;
        result.position = position + rows;  // of the sampled token
        sequence.position = result.position;
        if (sample_row < 0) return result;

        result.scored = true;
        result.logprob = logprob;
        if (result.position < prompt_length) return result;  // a prompt token, which only was scored

        result.generated = true;
        result.token = token;
        result.count = sequence.generated = generated + 1;
        bool stops = false;
        for (std::uint32_t i = 0; i < stop_count; ++i) stops = stops || sequence.stop[i] == token;
        if (stops) {
            sequence.finish = Finish::stop_token;
        } else if (result.count >= most) {
            sequence.finish = Finish::length;
        }
        result.finish = sequence.finish;
        return result;
    }

    PK_DEVICE static void hand_out(const Machine& m, std::uint32_t s, const Result& result) {
        if (!result.scored) return;
        // A row has room for the token after a full context.
        float* logprobs = m.output.logprobs + std::uint64_t{s} * (std::uint64_t{m.context} + 1);
        pk::store_relaxed_system(&logprobs[result.position], result.logprob);
        if (!result.generated) return;
        std::int32_t* tokens = m.output.tokens + std::uint64_t{s} * m.context;
        pk::store_relaxed_system(&tokens[result.count - 1], result.token);
        // Release: whoever reads this count, also while the call runs, finds the tokens it counts.
        pk::store_release_system(&m.output.count[s], result.count);
        if (result.finish != Finish::running) {
            pk::store_release_system(&m.output.finish[s], static_cast<std::uint32_t>(result.finish));
        }
    }
};

}  // namespace mpk::tasks
