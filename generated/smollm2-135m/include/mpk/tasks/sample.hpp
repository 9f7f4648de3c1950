// Chooses the next token of each sequence that samples in this step, and its log-probability.
#pragma once

#include <cmath>

#include "mpk/tasks/rows.hpp"
#include "pk/tile/histogram.hpp"
#include "pk/tile/logsumexp.hpp"
#include "pk/tile/math.hpp"
#include "pk/tile/philox.hpp"
#include "pk/tile/reduce.hpp"

namespace mpk::tasks {

// Probabilities are integers in units of 2^-40 of the most likely token, so that sums of them are exact and a
// choice does not depend on the number of threads.
template <class V>
struct Sample : AlwaysActive {
    struct Scratch {
        pk::tile::Histogram histogram;
        pk::tile::LogSumExpRoom room;
    };
    static constexpr std::uint32_t scratch_bytes = sizeof(Scratch);

    PK_DEVICE static void run(Context& ctx) {
        constexpr std::uint64_t stride = pk::tile::padded(V::vocab);
        const Machine& m = ctx.machine;
        auto& scratch = *static_cast<Scratch*>(ctx.scratch);
        auto* out = ctx.tensor<std::int32_t>(V::slot::out);
        for (std::uint32_t s = ctx.task.begin; s < ctx.task.end; ++s) {
            const std::int32_t row = m.step.sample_row[s];
            if (row < 0) continue;
            const Sequence& sequence = m.sequences[s];
            const std::uint32_t position = m.step.position[row] + 1;  // of the token to choose
            const float* logits = ctx.tensor<const float>(V::slot::logits) + s * stride;
            const pk::tile::LogSumExp total = pk::tile::log_sum_exp(logits, V::vocab, scratch.room);

            std::uint32_t token = total.best;
            if (position < sequence.prompt_length) {
                token = static_cast<std::uint32_t>(m.prompts[std::uint64_t{s} * m.context + position]);
            } else if (sequence.temperature > 0) {
                token = draw(sequence, position, logits, total.most, scratch.histogram);
            }
            if (pk::thread_rank() == 0) {
                out[s] = static_cast<std::int32_t>(token);
                m.step.sampled_logprob[s] = logits[token] - total.most - total.log_sum;
            }
        }
    }

private:
    // A logit that is not a number has no chance.
    PK_DEVICE static float clean(float logit) { return logit == logit ? logit : -INFINITY; }

    PK_DEVICE static std::uint32_t draw(const Sequence& sequence, std::uint32_t position, const float* logits,
                                        float most, pk::tile::Histogram& h) {
        const auto key = [=](std::uint32_t i) { return pk::tile::ordered_key(clean(logits[i])); };
        const float temperature = sequence.temperature;
        const auto mass = [=](std::uint32_t i) -> std::uint64_t {
            const float logit = clean(logits[i]);
            // The maximum itself apart, so that infinite logits and the tiniest temperatures give no NaN.
            const float power = logit == most ? 0.0f : (logit - most) / temperature;
            return static_cast<std::uint64_t>(pk::tile::exp(power) * 1099511627776.0f);
        };

        std::uint32_t least = 0;  // the least key that may be drawn
        if (sequence.top_k != 0 && sequence.top_k < V::vocab) {
            least = pk::tile::select_from_top(h, V::vocab, sequence.top_k - 1, key,
                                              [](std::uint32_t) { return std::uint64_t{1}; });
        }
        const auto kept_mass = [=](std::uint32_t floor) {
            return [=](std::uint32_t i) { return key(i) >= floor ? mass(i) : std::uint64_t{0}; };
        };
        std::uint64_t total = sum(h, kept_mass(least));
        if (sequence.top_p > 0 && sequence.top_p < 1) {
            const auto wanted =
                static_cast<std::uint64_t>(static_cast<double>(sequence.top_p) * static_cast<double>(total));
            const std::uint32_t by_mass =
                pk::tile::select_from_top(h, V::vocab, wanted == 0 ? 0 : wanted - 1, key, kept_mass(least));
            least = by_mass > least ? by_mass : least;
            total = sum(h, kept_mass(least));
        }
        const std::uint64_t target =
            pk::tile::multiply_high(pk::tile::philox(sequence.seed, position), total);
        return pk::tile::select_in_order(h, V::vocab, target, kept_mass(least));
    }

    template <class Mass>
    PK_DEVICE static std::uint64_t sum(pk::tile::Histogram& h, Mass mass) {
        std::uint64_t total = 0;
        for (std::uint32_t i = pk::thread_rank(); i < V::vocab; i += pk::block_threads) total += mass(i);
        return pk::tile::block_sum(total, h.room);
    }
};

}  // namespace mpk::tasks
