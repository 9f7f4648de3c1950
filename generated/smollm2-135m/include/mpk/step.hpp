// Which token rows a step carries. Used by the advance task for the next step and by the engine for the first.
#pragma once

#include "mpk/machine.hpp"
#include "pk/platform/platform.hpp"

namespace mpk {

PK_HOST_DEVICE bool is_live(const Sequence& sequence) {
    return sequence.prompt_length != 0 && sequence.finish == Finish::running;
}

// Fills m.step except `live`, and tokens[row], from the progress of the sequences; returns how many are live.
// Each live sequence gets a row, and in sequence order those that read their prompt get what is left of
// m.rows. sampled[s] is the token after the prompt and all that was generated so far: it is read only for
// sequences past their prompt. One thread calls.
PK_HOST_DEVICE std::uint32_t choose_rows(const Machine& m, std::int32_t* tokens, const std::int32_t* sampled) {
    std::uint32_t live = 0;
    for (std::uint32_t s = 0; s < m.batch; ++s) live += is_live(m.sequences[s]) ? 1 : 0;

    std::uint32_t row = 0;
    std::uint32_t waiting = live;  // live sequences that have no row yet
    for (std::uint32_t s = 0; s < m.batch; ++s) {
        const Sequence& sequence = m.sequences[s];
        m.step.first_row[s] = row;
        m.step.rows_of[s] = 0;
        m.step.sample_row[s] = -1;
        if (!is_live(sequence)) continue;

        --waiting;
        const bool one_row = sequence.score_prompt != 0 || sequence.position >= sequence.prompt_length;
        const std::uint32_t wanted = one_row ? 1 : sequence.prompt_length - sequence.position;
        const std::uint32_t room = m.rows - row - waiting;
        const std::uint32_t count = wanted < room ? wanted : room;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t position = sequence.position + i;
            const std::int32_t* prompt = m.prompts + std::uint64_t{s} * m.context;
            m.step.sequence[row + i] = s;
            m.step.position[row + i] = position;
            tokens[row + i] = position < sequence.prompt_length ? prompt[position] : sampled[s];
        }
        row += count;
        m.step.rows_of[s] = count;
        if (sequence.score_prompt != 0 || sequence.position + count >= sequence.prompt_length) {
            m.step.sample_row[s] = static_cast<std::int32_t>(row - 1);
        }
    }
    *m.step.row_count = row;
    return live;
}

// The first step of a call, when no sequence has made progress. m points to host memory; tokens is [rows].
inline void first_step(const Machine& m, std::int32_t* tokens) { *m.step.live = choose_rows(m, tokens, nullptr); }

}  // namespace mpk
