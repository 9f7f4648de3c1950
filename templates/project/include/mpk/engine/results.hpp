// Where the workers put what they generate, and how it is read while they run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "mpk/descriptors.hpp"
#include "mpk/machine.hpp"

namespace mpk::engine {

// `count` and `finish` lie one after the other at the start, so that one fill clears both.
inline constexpr std::size_t results_progress_bytes(std::uint32_t batch) {
    return std::size_t{2} * batch * sizeof(std::uint32_t);
}

// Log-probabilities of one sequence: one a position, that of the token after a full context included.
inline std::size_t logprobs_pitch(const Plan& plan) {
    return std::size_t{plan.context} + 1;
}

inline std::size_t results_bytes(const Plan& plan) {
    return results_progress_bytes(plan.batch) +
           std::size_t{plan.batch} * plan.context * sizeof(std::int32_t) +
           plan.batch * logprobs_pitch(plan) * sizeof(float);
}

// The parts of a result buffer.
inline Output results_at(const Plan& plan, void* base) {
    Output output = {};
    output.count = static_cast<std::uint32_t*>(base);
    output.finish = output.count + plan.batch;
    output.tokens = reinterpret_cast<std::int32_t*>(output.finish + plan.batch);
    output.logprobs = reinterpret_cast<float*>(output.tokens + std::size_t{plan.batch} * plan.context);
    return output;
}

// Forget the results of the call before. Only while no worker runs.
inline void clear_results(const Plan& plan, const Output& output) {
    for (std::uint32_t s = 0; s < plan.batch; ++s) {
        std::atomic_ref(output.count[s]).store(0, std::memory_order_relaxed);
        std::atomic_ref(output.finish[s]).store(0, std::memory_order_relaxed);
    }
    std::fill_n(output.logprobs, plan.batch * logprobs_pitch(plan), std::numeric_limits<float>::quiet_NaN());
}

struct Progress {
    std::uint32_t copied;
    std::uint32_t finish;
};

// Copy the tokens of sequence `s` from `first` on. A worker writes a token, releases the count that includes
// it, and last releases `finish`; reading `finish` before the count means that no token is missed once it is
// set.
inline Progress copy_tokens(const Plan& plan, const Output& output, std::uint32_t s, std::uint32_t first,
                            std::int32_t* tokens, std::uint32_t capacity) {
    const std::uint32_t finish = std::atomic_ref(output.finish[s]).load(std::memory_order_acquire);
    const std::uint32_t count = std::atomic_ref(output.count[s]).load(std::memory_order_acquire);
    const std::uint32_t copied = first < count ? std::min(count - first, capacity) : 0;
    std::copy_n(output.tokens + std::size_t{s} * plan.context + first, copied, tokens);
    return {copied, finish};
}

}  // namespace mpk::engine
