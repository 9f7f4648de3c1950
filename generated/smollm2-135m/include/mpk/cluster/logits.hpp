// The logits of the sequences that sample, and the best of each block's part of the vocabulary.
#pragma once

#include "mpk/cluster/gather.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::cluster {

#if PK_SM90

namespace detail {

// A running maximum with its lowest index and the sum of exp(logit - maximum).
struct Candidate {
    float most = -INFINITY, sum = 0;
    std::uint32_t token = 0xffffffff;

    PK_DEVICE void add(float logit, std::uint32_t index) {
        if (logit > most) {
            sum = __fmaf_rn(sum, __expf(most - logit), 1.0f);
            most = logit;
            token = index;
        } else if (logit > -INFINITY) {
            sum += __expf(logit - most);
        }
    }
    PK_DEVICE void add(const Candidate& other) {
        if (other.most == -INFINITY) return;
        const bool better = other.most > most || (other.most == most && other.token < token);
        const float higher = better ? other.most : most;
        sum = fold(sum, __expf(most - higher), other.sum, __expf(other.most - higher));
        token = better ? other.token : token;
        most = higher;
    }
    // With the lane `step` away; the same operands in the same order in both.
    PK_DEVICE void add_lane(std::uint32_t step, std::uint32_t lane) {
        Candidate other{__shfl_xor_sync(~0u, most, step), __shfl_xor_sync(~0u, sum, step),
                        __shfl_xor_sync(~0u, token, step)};
        if ((lane & step) != 0) {
            const Candidate mine = *this;
            *this = other;
            other = mine;
        }
        add(other);
    }
};

// For each row 16 threads look for the best: of a batch of one too, as the sum of the exponentials must not
// depend on the batch.
inline constexpr std::uint32_t threads_of_row = consumers / most_rows;

// The sequence that samples from the row whose best this thread looks for; negative: none.
template <class B>
PK_DEVICE std::int32_t sampler_of_thread(const B& block) {
    const std::uint32_t row = block.thread() / threads_of_row;
    return row < block.rows() ? block.board().sampler[row] : -1;
}

// Logits of tokens [first, first + count) to global memory, f32 [batch][padded vocab]; `best` of this
// thread's.
template <class B, class Sums>
PK_DEVICE void emit_logits(B& block, std::uint32_t first, std::uint32_t count, const Sums& sums,
                           Candidate& best) {
    using L = typename B::L;
    constexpr std::uint64_t stride = pk::tile::padded(B::D::vocab);
    const std::uint32_t row = block.thread() / threads_of_row, place = block.thread() % threads_of_row;
    const auto* scales = block.template at<const float>(L::scales);
    const auto* found = block.template at<const float>(L::stage);
    float* logits = block.setup.logits;
    if constexpr (B::rows_room == 1) {
        // All threads add up, then 16 of them compare.
        static_assert(L::sum_slots * band * tile * 4 <= consumer_warps * 256);
        const std::int32_t only = block.board().sampler[0];
        for (std::uint32_t o = block.thread(); o < count; o += consumers) {
            const float logit = sums.at(0, o) * scales[0];
            logits[only * stride + first + o] = logit;
            block.template at<float>(L::stage)[o] = logit;
        }
        block.sync();
    }
    const std::int32_t sampler = sampler_of_thread(block);
    if (sampler < 0) return;
    for (std::uint32_t o = place; o < count; o += threads_of_row) {
        float logit = 0;
        if constexpr (B::rows_room == 1) {
            logit = found[o];
        } else {
            logit = sums.at(row, o) * scales[row];
            logits[sampler * stride + first + o] = logit;
        }
        best.add(logit, first + o);
    }
}

// The block's Best of every sampler.
template <class B>
PK_DEVICE void put_best(const B& block, Candidate best) {
    PK_UNROLL
    for (std::uint32_t step = threads_of_row / 2; step != 0; step /= 2) best.add_lane(step, block.lane());
    const std::int32_t sampler = sampler_of_thread(block);
    if (block.thread() % threads_of_row != 0 || sampler < 0) return;
    Best* to = &block.setup.best[std::uint64_t(sampler) * gridDim.x + block.number()];
    pk::store_relaxed(reinterpret_cast<uint4*>(to),
                      {__float_as_uint(best.most), __float_as_uint(best.sum), best.token, block.step() + 1});
}

}  // namespace detail

#endif

}  // namespace mpk::cluster
