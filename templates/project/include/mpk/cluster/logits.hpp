// The logits of the sequences that sample, and the best of each block's part of the vocabulary.
#pragma once

#include "mpk/cluster/gather.hpp"
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

}  // namespace detail

// `logits`: f32 [batch][padded vocab]. Every block's Best of every sampler is written, not yet released.
template <class B>
PK_DEVICE void stream_logits(B& block, float* logits) {
    using D = typename B::D;
    using L = typename B::L;
    // For each row 16 threads look for the best: of a batch of one too, as the sum of the exponentials must
    // not depend on the batch.
    constexpr std::uint32_t R = B::rows_room, width = consumers / most_rows;
    constexpr std::uint64_t stride = pk::tile::padded(D::vocab);
    block.begin(D::layers, LayerOp::qkv);  // which is where the logits come after the last layer
    const std::uint32_t thread = block.thread(), row = thread / width, place = thread % width;
    const std::int32_t sampler = row < block.rows() ? block.board().sampler[row] : -1;
    const Tiles stream = block.tiles(Stream::logits, D::layers);
    const std::uint32_t first_token = stream.tiles.begin * tile;
    detail::Candidate best;
    product(block, block.address(L::hidden), stream,
            [&](std::uint32_t first, std::uint32_t count, const auto& sums) {
                const auto* scales = block.template at<const float>(L::scales);
                const auto* found = block.template at<const float>(L::stage);
                if constexpr (R == 1) {
                    // All threads add up, then 16 of them compare.
                    static_assert(L::sum_slots * band * tile * 4 <= consumer_warps * 256);
                    const std::int32_t only = block.board().sampler[0];
                    for (std::uint32_t o = thread; o < count; o += consumers) {
                        const float logit = sums.at(0, o) * scales[0];
                        logits[only * stride + first_token + first + o] = logit;
                        block.template at<float>(L::stage)[o] = logit;
                    }
                    block.sync();
                }
                if (sampler < 0) return;
                for (std::uint32_t o = place; o < count; o += width) {
                    const std::uint32_t token = first_token + first + o;
                    float logit = 0;
                    if constexpr (R == 1) {
                        logit = found[o];
                    } else {
                        logit = sums.at(row, o) * scales[row];
                        logits[sampler * stride + token] = logit;
                    }
                    best.add(logit, token);
                }
            });
    PK_UNROLL
    for (std::uint32_t step = width / 2; step != 0; step /= 2) best.add_lane(step, block.lane());
    if (place != 0 || sampler < 0) return;
    Best* to = &block.setup.best[std::uint64_t(sampler) * gridDim.x + block.number()];
    to->most = best.most;
    to->sum = best.sum;
    to->token = best.token;
}

#endif

}  // namespace mpk::cluster
