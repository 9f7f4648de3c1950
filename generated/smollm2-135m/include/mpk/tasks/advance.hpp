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
        const Machine& m = ctx.machine;
        const auto* sampled = ctx.tensor<const std::int32_t>(V::slot::sampled);
        auto* tokens = ctx.tensor<std::int32_t>(V::slot::tokens);
        for (std::uint32_t s = pk::thread_rank(); s < m.batch; s += pk::block_threads) {
            if (m.step.rows_of[s] != 0) record(m, s, sampled[s]);
        }
        pk::sync_block();
        if (pk::warp() == 0) {
            const std::uint32_t live = choose_rows<WarpLanes>(m, tokens, sampled);
            // Atomic since a worker without tasks may only now look at the step before; ordered by event 0.
            if (pk::lane() == 0) pk::store_relaxed(m.step.live, live);
        }
    }

private:
    PK_DEVICE static bool is_stop(const Sequence& sequence, std::int32_t token) {
        bool found = false;
        for (std::uint32_t i = 0; i < sequence.stop_count; ++i) found = found || sequence.stop[i] == token;
        return found;
    }

    PK_DEVICE static void record(const Machine& m, std::uint32_t s, std::int32_t token) {
        Sequence& sequence = m.sequences[s];
        const std::uint32_t position = sequence.position + m.step.rows_of[s];  // of the sampled token
        sequence.position = position;
        if (m.step.sample_row[s] < 0) return;

        // A row has room for the token after a full context.
        float* logprobs = m.output.logprobs + std::uint64_t{s} * (std::uint64_t{m.context} + 1);
        pk::store_relaxed_system(&logprobs[position], m.step.sampled_logprob[s]);
        if (position < sequence.prompt_length) return;  // a prompt token, which only was scored

        std::int32_t* generated_tokens = m.output.tokens + std::uint64_t{s} * m.context;
        pk::store_relaxed_system(&generated_tokens[sequence.generated], token);
        const std::uint32_t generated = ++sequence.generated;
        // Release: whoever reads this count, also while the call runs, finds the tokens it counts.
        pk::store_release_system(&m.output.count[s], generated);
        if (is_stop(sequence, token)) {
            sequence.finish = Finish::stop_token;
        } else if (generated >= sequence.max_new_tokens) {
            sequence.finish = Finish::length;
        }
        if (sequence.finish != Finish::running) {
            pk::store_release_system(&m.output.finish[s], static_cast<std::uint32_t>(sequence.finish));
        }
    }
};

}  // namespace mpk::tasks
