// The logits of the sequences that sample, and the best of each block's part of the vocabulary.
#pragma once

#include "mpk/cluster/product.hpp"
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

// The best that a thread has seen of each of its rows.
template <class B>
struct Candidates {
    Candidate of_row[Outputs<B::rows_room>::rows];
};

// Logits of tokens [first, first + 16) to global memory, f32 [batch][padded vocab].
template <class B>
PK_DEVICE void emit_logits(B& block, std::uint32_t first, const Outputs<B::rows_room>& out,
                           Candidates<B>& best) {
    using Out = Outputs<B::rows_room>;
    constexpr std::uint64_t stride = pk::tile::padded(B::D::vocab);
    const auto* scales = block.template at<const float>(B::L::scales);
    const std::uint32_t lane = block.lane(), token = first + lane / 4;
    if (!Out::is_there(block.warp(), lane)) return;
    PK_UNROLL
    for (std::uint32_t k = 0; k < Out::rows; ++k) {
        const std::uint32_t row = Out::row(block.warp(), lane, k);
        const std::int32_t sampler = row < block.rows() ? block.board().sampler[row] : -1;
        if (sampler < 0) continue;
        const float low = out.low[k] * scales[row], high = out.high[k] * scales[row];
        float* to = block.setup.logits + std::uint32_t(sampler) * stride + token;
        to[0] = low;
        to[8] = high;
        best.of_row[k].add(low, token);
        best.of_row[k].add(high, token + 8);
    }
}

// The block's Best of every sampler. In an order that does not depend on the batch, as the sum of the
// exponentials does on it: lanes of a row, then warps. All consumers.
template <class B>
PK_DEVICE void put_best(B& block, Candidates<B>& best) {
    using Out = Outputs<B::rows_room>;
    static_assert(4 * most_rows * sizeof(Candidate) <= consumer_warps * B::L::stage_bytes);
    auto* found = block.template at<Candidate>(B::L::stage);  // [warp of a tile][row]
    const std::uint32_t lane = block.lane();
    PK_UNROLL
    for (std::uint32_t k = 0; k < Out::rows; ++k) {
        Candidate& mine = best.of_row[k];
        PK_UNROLL
        for (std::uint32_t step = 16; step >= 4; step /= 2) mine.add_lane(step, lane);
        if (lane < 4 && Out::is_there(block.warp(), lane)) {
            found[block.warp() % 4 * most_rows + Out::row(block.warp(), lane, k)] = mine;
        }
    }
    block.sync();
    const std::uint32_t row = block.thread();
    const std::int32_t sampler = row < block.rows() ? block.board().sampler[row] : -1;
    // Read here: in the branch they would part the lanes for the compiler (uniform).
    const std::uint32_t number = block.number(), step = block.step() + 1;
    if (sampler >= 0) {
        Candidate all = found[row];
        PK_UNROLL
        for (std::uint32_t w = 1; w < 4; ++w) all.add(found[w * most_rows + row]);
        Best* to = &block.setup.best[std::uint64_t(sampler) * gridDim.x + number];
        pk::store_relaxed(reinterpret_cast<uint4*>(to),
                          {__float_as_uint(all.most), __float_as_uint(all.sum), all.token, step});
    }
}

}  // namespace detail

#endif

}  // namespace mpk::cluster
