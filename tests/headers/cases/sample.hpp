// The sampler against sorting and exact sums in double.
#pragma once

#include <algorithm>
#include <limits>
#include <set>

#include "mpk/tasks/sample.hpp"
#include "support/fixture.hpp"
#include "support/suite.hpp"

namespace testing {

template <int Vocab>
struct SampleVariant {
    static constexpr int vocab = Vocab;
    struct slot {
        static constexpr int logits = 0, out = 1;
    };
};

// `batch` sequences whose prompt of one token has been read; sequence s samples its token 1.
template <int Vocab>
class Sampler {
public:
    explicit Sampler(std::uint32_t batch) : fixture(batch, batch, 4), logits(batch, Vocab), out(batch, -9) {
        std::vector<Row> rows;
        for (std::uint32_t s = 0; s < batch; ++s) {
            rows.push_back({s, 0});
            fixture.sequences[s].prompt_length = 1;
            fixture.sequences[s].top_p = 1;
        }
        fixture.set_rows(rows);
    }

    void run() {
        fixture.run<mpk::tasks::Sample<SampleVariant<Vocab>>>(task_over(0, fixture.m.batch),
                                                              {logits.array.data(), out.data()});
    }

    double log_probability(std::uint32_t s, std::uint32_t token) {
        double most = -1e300, sum = 0;
        for (std::uint32_t i = 0; i < Vocab; ++i) most = std::max(most, logits.value(s, i));
        for (std::uint32_t i = 0; i < Vocab; ++i) sum += std::exp(logits.value(s, i) - most);
        return logits.value(s, token) - most - std::log(sum);
    }

    // The tokens that may be drawn, and the share of each.
    std::vector<double> distribution(std::uint32_t s, double temperature, std::uint32_t top_k, double top_p) {
        std::vector<double> share(Vocab);
        std::vector<std::uint32_t> order(Vocab);
        double most = -1e300;
        for (std::uint32_t i = 0; i < Vocab; ++i) most = std::max(most, logits.value(s, i));
        for (std::uint32_t i = 0; i < Vocab; ++i) {
            order[i] = i;
            share[i] = std::exp((logits.value(s, i) - most) / temperature);
        }
        std::sort(order.begin(), order.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return logits.value(s, a) > logits.value(s, b); });
        double least = -1e300;
        if (top_k != 0 && top_k < Vocab) least = logits.value(s, order[top_k - 1]);
        double total = 0;
        for (std::uint32_t i = 0; i < Vocab; ++i) total += logits.value(s, i) >= least ? share[i] : 0;
        if (top_p < 1) {
            double mass = 0;
            for (std::uint32_t i : order) {
                mass += share[i];
                if (mass < top_p * total) continue;
                least = std::max(least, logits.value(s, i));
                break;
            }
        }
        total = 0;
        for (std::uint32_t i = 0; i < Vocab; ++i) total += logits.value(s, i) >= least ? share[i] : 0;
        for (std::uint32_t i = 0; i < Vocab; ++i)
            share[i] = logits.value(s, i) >= least ? share[i] / total : 0;
        return share;
    }

    Fixture fixture;
    Matrix<float> logits;
    Array<std::int32_t> out;
};

template <int Vocab>
void greedy_case(Suite& suite) {
    Sampler<Vocab> sampler(5);
    auto& logits = sampler.logits;
    for (std::uint32_t c = 0; c < Vocab; ++c) {
        logits.set(1, c, -3 - static_cast<double>(below(1000)));  // all below the zeros of the padding
        logits.set(2, c, 1);                                      // a tie of all
        logits.set(3, c, below(4));                               // many ties
    }
    logits.set(4, Vocab - 1, 50);  // the last
    sampler.run();
    Worst worst;
    for (std::uint32_t s = 0; s < 5; ++s) {
        std::int32_t best = 0;
        for (std::uint32_t c = 1; c < Vocab; ++c) {
            if (logits.value(s, c) > logits.value(s, static_cast<std::uint32_t>(best)))
                best = static_cast<std::int32_t>(c);
        }
        worst.same(sampler.out[s] == best, s);
        worst.add(sampler.fixture.logprob[s], sampler.log_probability(s, static_cast<std::uint32_t>(best)),
                  2e-5, s);
    }
    suite.check("greedy vocab=" + std::to_string(Vocab), worst.good(), worst.detail());
}

// Drawn tokens follow the distribution: chi-square over `draws` seeds, with a limit that chance passes once
// in 10^5.
template <int Vocab>
void distribution_case(Suite& suite, float temperature, std::uint32_t top_k, float top_p) {
    constexpr std::uint32_t draws = 4000;
    Sampler<Vocab> sampler(draws);
    std::vector<double> row(Vocab);
    for (double& value : row) value = normal(2);
    row[3] = row[5] = row[Vocab - 1];  // a tie
    for (std::uint32_t s = 0; s < draws; ++s) {
        for (std::uint32_t c = 0; c < Vocab; ++c) sampler.logits.set(s, c, row[c]);
        auto& sequence = sampler.fixture.sequences[s];
        sequence.temperature = temperature;
        sequence.top_k = top_k;
        sequence.top_p = top_p;
        sequence.seed = 1000 + s;
    }
    sampler.run();
    const auto share = sampler.distribution(0, temperature, top_k, top_p);
    std::vector<double> seen(Vocab);
    Worst worst;
    for (std::uint32_t s = 0; s < draws; ++s) {
        const auto token = static_cast<std::uint32_t>(sampler.out[s]);
        worst.same(token < Vocab && share[token] > 0, s);
        if (token >= Vocab) continue;
        seen[token] += 1;
        worst.add(sampler.fixture.logprob[s], sampler.log_probability(s, token), 2e-5, s);
    }
    // Tokens expected less than five times are counted together.
    double chi = 0, rare_seen = 0, rare_expected = 0;
    int cells = 0;
    const auto count = [&](double observed, double expected) {
        chi += (observed - expected) * (observed - expected) / expected;
        ++cells;
    };
    for (std::uint32_t c = 0; c < Vocab; ++c) {
        if (share[c] * draws >= 5) {
            count(seen[c], share[c] * draws);
        } else {
            rare_seen += seen[c];
            rare_expected += share[c] * draws;
        }
    }
    if (rare_expected >= 5) count(rare_seen, rare_expected);
    const double freedom = cells > 1 ? cells - 1 : 1;
    const double limit = freedom + 4.3 * std::sqrt(2 * freedom) + 12;
    suite.check("draws vocab=" + std::to_string(Vocab) + " t=" + std::to_string(temperature) +
                    " k=" + std::to_string(top_k) + " p=" + std::to_string(top_p),
                worst.good() && chi < limit,
                worst.detail() + " chi-square " + std::to_string(chi) + " for " +
                    std::to_string(static_cast<int>(freedom)));
}

// Over many random rows no token outside the top-k / top-p set is drawn, and each of a small set is.
template <int Vocab>
void set_case(Suite& suite, std::uint32_t top_k, float top_p) {
    constexpr std::uint32_t rows = 40;
    Sampler<Vocab> sampler(rows);
    for (std::uint32_t s = 0; s < rows; ++s) {
        auto& sequence = sampler.fixture.sequences[s];
        sequence.temperature = 0.5f + 0.1f * static_cast<float>(s % 10);
        sequence.top_k = top_k;
        sequence.top_p = top_p;
        // Some rows have few distinct values, so that ties straddle the limits.
        if (s % 4 == 0) {
            for (std::uint32_t c = 0; c < Vocab; ++c) sampler.logits.set(s, c, below(8) - 4.0);
        }
    }
    Worst worst;
    std::vector<std::vector<double>> shares;
    for (std::uint32_t s = 0; s < rows; ++s) {
        shares.push_back(sampler.distribution(s, sampler.fixture.sequences[s].temperature, top_k, top_p));
    }
    for (int round = 0; round < 8; ++round) {
        for (std::uint32_t s = 0; s < rows; ++s) sampler.fixture.sequences[s].seed = below(1u << 30);
        sampler.run();
        for (std::uint32_t s = 0; s < rows; ++s) {
            const auto token = static_cast<std::uint32_t>(sampler.out[s]);
            worst.same(token < Vocab && shares[s][token] > 0, s);
        }
    }
    suite.check(
        "sets vocab=" + std::to_string(Vocab) + " k=" + std::to_string(top_k) + " p=" + std::to_string(top_p),
        worst.good(), worst.detail());
}

// The same seed and position give the same token wherever the sequence is; another position another draw.
inline void seed_case(Suite& suite) {
    constexpr int vocab = 5000;
    Sampler<vocab> sampler(64);
    for (std::uint32_t s = 0; s < 64; ++s) {
        for (std::uint32_t c = 0; c < vocab; ++c) sampler.logits.set(s, c, 0.001 * (c % 7));
        sampler.fixture.sequences[s].temperature = 1;
        sampler.fixture.sequences[s].seed = s / 32;
        sampler.fixture.position[s] = s % 32 / 2;
    }
    sampler.run();
    Worst worst;
    std::set<std::int32_t> distinct;
    for (std::uint32_t s = 0; s < 64; s += 2) {
        worst.same(sampler.out[s] == sampler.out[s + 1], s);
        distinct.insert(sampler.out[s]);
    }
    worst.same(distinct.size() >= 30, distinct.size());
    suite.check("draws depend on seed and position alone", worst.good(), worst.detail());
}

// Logits that are not finite: no hang, and a token of the vocabulary.
inline void strange_logits(Suite& suite) {
    constexpr int vocab = 333;
    constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                     infinity = std::numeric_limits<double>::infinity();
    Sampler<vocab> sampler(10);
    for (std::uint32_t s = 0; s < 10; ++s) {
        auto& sequence = sampler.fixture.sequences[s];
        sequence.temperature = s % 2 == 0 ? 0.0f : 1e-30f;
        sequence.top_k = s < 5 ? 0 : 7;
        sequence.top_p = s < 5 ? 1.0f : 0.9f;
        sequence.seed = s;
        for (std::uint32_t c = 0; c < vocab; ++c) {
            if (s < 2) sampler.logits.set(s, c, nan);
            if (s == 2 || s == 3) sampler.logits.set(s, c, c % 3 == 0 ? nan : sampler.logits.value(s, c));
            if (s == 4 || s == 5) sampler.logits.set(s, c, -infinity);
            if (s == 6 || s == 7)
                sampler.logits.set(s, c, c % 50 == 9 ? infinity : sampler.logits.value(s, c));
        }
    }
    sampler.run();
    Worst worst;
    for (std::uint32_t s = 0; s < 10; ++s) worst.same(sampler.out[s] >= 0 && sampler.out[s] < vocab, s);
    for (std::uint32_t s : {2u, 3u}) worst.same(sampler.out[s] % 3 != 0, s);
    worst.same(sampler.out[6] == 9, 6);
    worst.same(sampler.out[7] % 50 == 9, 7);
    suite.check("logits that are not finite", worst.good(), worst.detail());
}

// With score_prompt the next prompt token is forced and its log-probability recorded; without rows nothing
// happens.
inline void forced_case(Suite& suite) {
    constexpr int vocab = 333;
    Sampler<vocab> sampler(2);
    sampler.fixture.sequences[0].prompt_length = 3;
    sampler.fixture.sequences[0].score_prompt = 1;
    sampler.fixture.prompts[1] = 77;
    sampler.fixture.sample_row[1] = -1;
    sampler.run();
    Worst worst;
    worst.same(sampler.out[0] == 77, 0);
    worst.add(sampler.fixture.logprob[0], sampler.log_probability(0, 77), 2e-5, 0);
    worst.same(sampler.out[1] == -9 && is_poison(sampler.fixture.logprob[1]), 1);
    suite.check("a forced prompt token", worst.good(), worst.detail());
}

inline void sample_cases(Suite& suite) {
    greedy_case<37>(suite);
    greedy_case<49152>(suite);
    greedy_case<1000>(suite);
    distribution_case<37>(suite, 1, 0, 1);
    distribution_case<37>(suite, 0.7f, 0, 1);
    distribution_case<37>(suite, 2, 5, 1);
    distribution_case<37>(suite, 1, 0, 0.8f);
    distribution_case<300>(suite, 1.5f, 20, 0.9f);
    for (std::uint32_t top_k : {0u, 1u, 3u, 50u}) {
        for (float top_p : {1.0f, 0.95f, 0.5f, 0.01f}) set_case<1500>(suite, top_k, top_p);
    }
    seed_case(suite);
    strange_logits(suite);
    forced_case(suite);
}

}  // namespace testing
