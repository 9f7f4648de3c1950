// Causal attention of the tokens of a pass. A warp has 16 tokens of one query head; the keys come in blocks
// whose bounds are positions of the sequence, and a block that a token does not see changes nothing of its
// result, so that does not depend on which tokens it is computed with.
#pragma once

#include "mpk/cluster/prefill/crew.hpp"
#include "mpk/cluster/prefill/keys.hpp"

namespace mpk::cluster::prefill {

#if PK_SM90

// What a lane has of 16 tokens: rows g and g + 8.
template <class D>
struct Attended {
    static constexpr float never = -1e30f;
    float out[D::head / 8][4] = {};
    float most[2] = {never, never}, sum[2] = {};
};

// Scores of a block, then its values. first: position of its first key; limit: keys that are there; position:
// of the lane's first token, the second one being 8 later.
template <class D>
PK_DEVICE void attend_block(Attended<D>& a, const std::uint32_t (&query)[D::head / 16][4], std::uint32_t keys,
                            std::uint32_t first, std::uint32_t limit, std::uint32_t position,
                            std::uint32_t lane) {
    constexpr std::uint32_t steps = D::head / 16, units = key_block<D> / unit;
    const std::uint32_t i = lane % 4;
    const std::uint32_t key_row = lane / 16 * 8 + lane % 8, value_row = lane / 8 % 2 * 8 + lane % 8;
    const std::uint32_t values = keys + key_block<D> * D::head * 2;
    float score[2 * units][4] = {};
    PK_UNROLL
    for (std::uint32_t u = 0; u < units; ++u) {
        PK_UNROLL
        for (std::uint32_t k = 0; k < steps; ++k) {
            std::uint32_t key[4];
            pk::ptx::load_matrices(key, keys + swizzled<D>(u * unit + key_row, k * 2 + lane / 8 % 2));
            pk::ptx::mma_m16n8k16(score[2 * u], query[k], {key[0], key[1]});
            pk::ptx::mma_m16n8k16(score[2 * u + 1], query[k], {key[2], key[3]});
        }
    }
    PK_UNROLL
    for (std::uint32_t r = 0; r < 2; ++r) {
        float local = Attended<D>::never;
        PK_UNROLL
        for (std::uint32_t n = 0; n < 2 * units; ++n) {
            PK_UNROLL
            for (std::uint32_t e = 0; e < 2; ++e) {
                float& s = score[n][2 * r + e];
                if (first + n * 8 + i * 2 + e > position + r * 8) s = Attended<D>::never;
                local = fmaxf(local, s);
            }
        }
        local = fmaxf(local, __shfl_xor_sync(~0u, local, 1));
        local = fmaxf(local, __shfl_xor_sync(~0u, local, 2));
        const float higher = fmaxf(a.most[r], local), shrink = __expf(a.most[r] - higher);
        a.most[r] = higher;
        float added = 0;
        PK_UNROLL
        for (std::uint32_t n = 0; n < 2 * units; ++n) {
            PK_UNROLL
            for (std::uint32_t e = 0; e < 2; ++e) {
                float& s = score[n][2 * r + e];
                s = __expf(s - higher);
                added += s;
            }
        }
        a.sum[r] = __fmaf_rn(a.sum[r], shrink, added);
        PK_UNROLL
        for (std::uint32_t n = 0; n < 2 * steps; ++n) {
            a.out[n][2 * r] *= shrink;
            a.out[n][2 * r + 1] *= shrink;
        }
    }
    PK_UNROLL
    for (std::uint32_t u = 0; u < units; ++u) {
        const std::uint32_t weight[4] = {detail::bf16_pair(score[2 * u][0], score[2 * u][1]),
                                         detail::bf16_pair(score[2 * u][2], score[2 * u][3]),
                                         detail::bf16_pair(score[2 * u + 1][0], score[2 * u + 1][1]),
                                         detail::bf16_pair(score[2 * u + 1][2], score[2 * u + 1][3])};
        // Where no value has been written yet there may be anything, which times 0 need not be 0.
        const auto mask = [&](std::uint32_t token) {
            return (token < limit ? 0xffffu : 0u) | (token + 1 < limit ? 0xffff0000u : 0u);
        };
        const std::uint32_t token = first + u * unit + 2 * i;
        const std::uint32_t low = mask(token), high = mask(token + 8);
        PK_UNROLL
        for (std::uint32_t n = 0; n < steps; ++n) {
            std::uint32_t value[4];
            pk::ptx::load_matrices_transposed(value,
                                              values + swizzled<D>(u * unit + value_row, n * 2 + lane / 16));
            pk::ptx::mma_m16n8k16(a.out[2 * n], weight, {value[0] & low, value[1] & high});
            pk::ptx::mma_m16n8k16(a.out[2 * n + 1], weight, {value[2] & low, value[3] & high});
        }
    }
}

// All consumers of all blocks.
template <class C>
PK_DEVICE void attend_prompts(C& crew) {
    using D = typename C::D;
    using S = typename C::S;
    constexpr std::uint32_t heads = S::group_heads, steps = D::head / 16;
    const std::uint32_t lane = crew.lane(), g = lane / 4, i = lane % 4;
    const std::uint32_t items = key_items<D>(crew.pass());
    _Pragma("unroll 1") for (std::uint32_t n = blockIdx.x; n < items; n += gridDim.x) {
        const KeyItem<D> item(crew.pass(), n);
        const std::uint32_t head = item.group * heads + crew.warp() % heads;
        const std::uint32_t offset = crew.warp() / heads * 16;  // of the warp's tokens in the item
        const bool works = offset < item.count && crew.warp() / heads * heads + heads <= consumer_warps;
        const std::uint32_t first_row = item.segment.row + item.first + offset;
        const std::uint32_t position = item.segment.position + item.first + offset;
        const std::uint32_t last = item.count - 1 - (works ? offset : 0);  // token of the warp's
        std::uint32_t query[steps][4] = {};
        if (works) {
            const auto* low = reinterpret_cast<const std::uint32_t*>(crew.buffers.queries) +
                              ((first_row + min(g, last)) * D::heads + head) * (D::head / 2) + i;
            const auto* high = reinterpret_cast<const std::uint32_t*>(crew.buffers.queries) +
                               ((first_row + min(g + 8, last)) * D::heads + head) * (D::head / 2) + i;
            PK_UNROLL
            for (std::uint32_t k = 0; k < steps; ++k) {
                query[k][0] = low[k * 8];
                query[k][1] = high[k * 8];
                query[k][2] = low[k * 8 + 4];
                query[k][3] = high[k * 8 + 4];
            }
        }
        Attended<D> a;
        _Pragma("unroll 1") for (std::uint32_t first = 0; first < item.end(); first += key_block<D>) {
            const std::uint32_t keys = crew.wait_stage();
            if (works && first <= position + min(15u, last)) {
                attend_block<D>(a, query, keys, first, item.limit(), position + g, lane);
            }
            crew.release_stage(1);
        }
        if (!works) continue;
        PK_UNROLL
        for (std::uint32_t r = 0; r < 2; ++r) {
            a.sum[r] += __shfl_xor_sync(~0u, a.sum[r], 1);
            a.sum[r] += __shfl_xor_sync(~0u, a.sum[r], 2);
            if (g + r * 8 > last) continue;
            const float scale = 1.0f / a.sum[r];
            PK_UNROLL
            for (std::uint32_t c = 0; c < D::head / chunk; ++c) {
                std::uint32_t word[4];
                PK_UNROLL
                for (std::uint32_t w = 0; w < 4; ++w) {
                    const float* out = &a.out[4 * c + w][2 * r];
                    word[w] = detail::bf16_pair(out[0] * scale, out[1] * scale);
                }
                *reinterpret_cast<uint4*>(
                    crew.buffers.attended +
                    activation_offset(head * (D::head / chunk) + c, first_row + g + r * 8, i)) = {
                    word[0], word[1], word[2], word[3]};
            }
        }
    }
}

#endif

}  // namespace mpk::cluster::prefill
