// Which token rows a step carries. Used by the advance task for the next step and by the engine for the
// first.
#pragma once

#include "mpk/machine.hpp"
#include "pk/platform/block.hpp"

namespace mpk {

// The lanes that work on choose_rows together: a warp, or one thread of the engine.
struct OneLane {
    static constexpr std::uint32_t count = 1;
    PK_HOST_DEVICE static std::uint32_t index() { return 0; }
    PK_HOST_DEVICE static std::uint32_t sum(std::uint32_t value) { return value; }
    PK_HOST_DEVICE static std::uint32_t sum_before(std::uint32_t) { return 0; }
    template <class T>
    PK_HOST_DEVICE static T broadcast(T value, std::uint32_t) {
        return value;
    }
};

#if PK_CUDA
struct WarpLanes {
    static constexpr std::uint32_t count = pk::warp_lanes;
    __device__ static std::uint32_t index() { return pk::lane(); }
    __device__ static std::uint32_t sum(std::uint32_t value) { return pk::warp_sum(value); }
    __device__ static std::uint32_t sum_before(std::uint32_t value) { return pk::warp_sum_before(value); }
    template <class T>
    __device__ static T broadcast(T value, std::uint32_t lane) {
        return pk::broadcast(value, lane);
    }
};
#else
using WarpLanes = OneLane;
#endif

namespace detail {

// One sequence's part in a step.
struct Share {
    std::uint32_t first_row, count, position, prompt_length;
};

// Row first_row + i of a share. `next_token` is the token after the prompt and all that was generated.
PK_HOST_DEVICE void fill_row(const Machine& m, std::int32_t* tokens, std::uint32_t s, const Share& share,
                             std::uint32_t i, std::int32_t next_token) {
    const std::uint32_t row = share.first_row + i, position = share.position + i;
    m.step.sequence[row] = s;
    m.step.position[row] = position;
    tokens[row] =
        position < share.prompt_length ? m.prompts[std::uint64_t{s} * m.context + position] : next_token;
}

}  // namespace detail

// Fills m.step except `live`, and tokens[row], from the progress of the sequences; returns how many are live.
// Each live sequence gets a row, and in sequence order those that read their prompt get what is left of
// m.rows. sampled[s] matters only for sequences past their prompt. All of Lanes call.
template <class Lanes>
PK_HOST_DEVICE std::uint32_t choose_rows(const Machine& m, std::int32_t* tokens,
                                         const std::int32_t* sampled) {
    const auto is_live = [&](std::uint32_t s) {
        const Sequence& sequence = m.sequences[s < m.batch ? s : 0];
        // Both loads together: on a GPU each takes its time, and the next step waits.
        const bool used = sequence.prompt_length != 0, running = sequence.finish == Finish::running;
        return s < m.batch && used && running;
    };
    std::uint32_t live = 0;
    for (std::uint32_t base = 0; base < m.batch; base += Lanes::count) {
        live += Lanes::sum(is_live(base + Lanes::index()) ? 1 : 0);
    }

    std::uint32_t row = 0, spare = m.rows - live;  // rows beyond the one that each live sequence has
    for (std::uint32_t base = 0; base < m.batch; base += Lanes::count) {
        const std::uint32_t s = base + Lanes::index();
        const Sequence& sequence = m.sequences[s < m.batch ? s : 0];
        const std::int32_t token = sampled != nullptr ? sampled[s < m.batch ? s : 0] : 0;
        detail::Share share{0, 0, sequence.position, sequence.prompt_length};
        const bool scores = sequence.score_prompt != 0, mine = is_live(s);
        std::uint32_t more = 0;  // rows wanted beyond the first
        if (mine && !scores && share.position < share.prompt_length)
            more = share.prompt_length - share.position - 1;
        // First come, first served: what the lanes before this one want is theirs.
        const std::uint32_t taken = Lanes::sum_before(more);
        const std::uint32_t left = spare > taken ? spare - taken : 0;
        const std::uint32_t wanted = Lanes::sum(more);
        spare = spare > wanted ? spare - wanted : 0;
        share.count = mine ? 1 + (more < left ? more : left) : 0;
        share.first_row = row + Lanes::sum_before(share.count);
        row += Lanes::sum(share.count);

        if (s < m.batch) {
            const bool samples = mine && (scores || share.position + share.count >= share.prompt_length);
            m.step.first_row[s] = share.first_row;
            m.step.rows_of[s] = share.count;
            m.step.sample_row[s] =
                samples ? static_cast<std::int32_t>(share.first_row + share.count - 1) : -1;
        }
        if (mine) detail::fill_row(m, tokens, s, share, 0, token);
        // The rest of a prompt's rows, by all lanes together.
        for (std::uint32_t lane = 0; wanted != 0 && lane < Lanes::count; ++lane) {
            const detail::Share other{
                Lanes::broadcast(share.first_row, lane), Lanes::broadcast(share.count, lane),
                Lanes::broadcast(share.position, lane), Lanes::broadcast(share.prompt_length, lane)};
            for (std::uint32_t i = 1 + Lanes::index(); i < other.count; i += Lanes::count) {
                detail::fill_row(m, tokens, base + lane, other, i, 0);
            }
        }
    }
    if (Lanes::index() == 0) *m.step.row_count = row;
    return live;
}

// The first step of a call, in which a sequence has only those tokens behind it that are read ahead. m points
// to host memory; tokens is [rows].
inline void first_step(const Machine& m, std::int32_t* tokens) {
    *m.step.live = choose_rows<OneLane>(m, tokens, nullptr);
}

}  // namespace mpk
