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
    WarpValues<float> most, sum;
    WarpValues<std::uint32_t> best;
};

#if PK_CUDA

namespace detail {

// What a thread has seen: sum is that of exp(logit - most).
struct RunningSum {
    float most = -INFINITY, sum = 0;
    std::uint32_t best = 0;

    PK_DEVICE void add(float logit, std::uint32_t index) {
        if (logit > most) {
            sum *= exp(most - logit);
            most = logit;
            best = index;
        }
        // Equal apart, since infinities have no difference; a NaN fails both comparisons.
        if (logit == most) {
            sum += 1;
        } else if (logit < most) {
            sum += exp(logit - most);
        }
    }
};

}  // namespace detail

// One pass over a row that starts at a multiple of 16 bytes. NaN is passed over. All threads call.
PK_DEVICE LogSumExp log_sum_exp(const float* logits, std::uint32_t count, LogSumExpRoom& room) {
    constexpr std::uint32_t depth = 8;  // 16-byte loads in flight
    detail::RunningSum mine;
    const std::uint32_t whole = count / 4;
    const auto* quads = reinterpret_cast<const float4*>(logits);
    for (std::uint32_t base = thread_rank(); base < whole; base += depth * block_threads) {
        float4 quad[depth];
        PK_UNROLL
        for (std::uint32_t d = 0; d < depth; ++d) {
            const std::uint32_t i = base + d * block_threads;
            quad[d] = quads[i < whole ? i : base];
        }
        PK_UNROLL
        for (std::uint32_t d = 0; d < depth; ++d) {
            const std::uint32_t i = base + d * block_threads;
            if (i >= whole) break;
            mine.add(quad[d].x, 4 * i);
            mine.add(quad[d].y, 4 * i + 1);
            mine.add(quad[d].z, 4 * i + 2);
            mine.add(quad[d].w, 4 * i + 3);
        }
    }
    for (std::uint32_t i = 4 * whole + thread_rank(); i < count; i += block_threads) mine.add(logits[i], i);

    const float most = block_max(mine.most, room.most);
    const bool is_most = mine.most == most;
    // count - index, so that the lowest index is the largest value; 0 for none.
    const std::uint32_t before_end = block_max(is_most && mine.sum > 0 ? count - mine.best : 0, room.best);
    const float sum = block_sum(is_most ? mine.sum : mine.sum * exp(mine.most - most), room.sum);
    return {most, before_end == 0 ? 0 : count - before_end, ::logf(sum)};
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
