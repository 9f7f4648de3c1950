// The largest of a row of logits, where it is, and the logarithm of the sum of exponentials.
#pragma once

#include <cmath>

#include "pk/tile/math.hpp"
#include "pk/tile/reduce.hpp"

namespace pk::tile {

struct LogSumExp {
    float most;          // the largest logit; -inf when there is none
    std::uint32_t best;  // the lowest index that holds it; 0 when there is none
    float log_sum;       // log(sum exp(logit - most))
};

struct LogSumExpRoom {
    WarpValues<float> most;
    WarpValues<std::uint32_t> best;
    WarpValues<std::uint64_t> sum;
};

#if PK_CUDA

// NaN is passed over. All threads call. The sum is of integers in units of 2^-40: exact whatever the order.
PK_DEVICE LogSumExp log_sum_exp(const float* logits, std::uint32_t count, LogSumExpRoom& room) {
    float most = -INFINITY;
#pragma unroll 8
    for (std::uint32_t i = thread_rank(); i < count; i += block_threads) {
        const float logit = logits[i];
        most = logit > most ? logit : most;
    }
    most = block_max(most, room.most);

    std::uint32_t after_best = 0;  // count - index, so that the lowest index is the largest value; 0: none
    std::uint64_t sum = 0;
#pragma unroll 8
    for (std::uint32_t i = thread_rank(); i < count; i += block_threads) {
        const float logit = logits[i];
        const bool is_most = logit == most;
        if (is_most && after_best == 0) after_best = count - i;
        const float power = is_most ? 0.0f : logit - most;
        if (power <= 0.0f) sum += static_cast<std::uint64_t>(exp(power) * 1099511627776.0f);
    }
    after_best = block_max(after_best, room.best);
    sum = block_sum(sum, room.sum);
    const float log_sum = static_cast<float>(::log(static_cast<double>(sum) / 1099511627776.0));
    return {most, after_best == 0 ? 0 : count - after_best, log_sum};
}

#else

// NaN is passed over.
inline LogSumExp log_sum_exp(const float* logits, std::uint32_t count, LogSumExpRoom&) {
    using F = Floats<lanes>;
    const std::uint32_t whole = count / lanes * lanes;
    F largest = F{} - INFINITY;
    for (std::uint32_t i = 0; i < whole; i += lanes) {
        const F logit = load<F>(logits + i);
        largest = logit > largest ? logit : largest;
    }
    float most = -INFINITY;
    for (std::uint32_t i = 0; i < lanes; ++i) most = largest[i] > most ? largest[i] : most;
    for (std::uint32_t i = whole; i < count; ++i) most = logits[i] > most ? logits[i] : most;

    std::uint32_t best = 0;
    for (constexpr std::uint32_t stretch = 64; best + stretch <= count; best += stretch) {
        std::uint32_t hits = 0;
        for (std::uint32_t i = 0; i < stretch; ++i) hits |= logits[best + i] == most ? 1u : 0u;
        if (hits != 0) break;
    }
    while (best < count && !(logits[best] == most)) ++best;

    using D = Doubles<lanes>;
    const auto shifted = [most](float logit) { return logit == most ? 0.0f : logit - most; };
    D sums = {};
    for (std::uint32_t i = 0; i < whole; i += lanes) {
        const F logit = load<F>(logits + i);
        const F power = logit == most ? F{} : logit - most;
        sums += __builtin_convertvector(exp<lanes>(power), D);
    }
    double sum = 0;
    for (std::uint32_t i = 0; i < lanes; ++i) sum += sums[i];
    for (std::uint32_t i = whole; i < count; ++i) sum += static_cast<double>(exp(shifted(logits[i])));
    return {most, best < count ? best : 0, static_cast<float>(std::log(sum))};
}

#endif

}  // namespace pk::tile
