// The residual stream of a pass: x += the parts' sums, then bf16(x * norm weight) as the next product reads
// it and sums of squares, from which the factors 1 / rms come that are applied to the product.
#pragma once

#include "mpk/cluster/prefill/crew.hpp"

namespace mpk::cluster::prefill {

#if PK_SM90

// Columns g, g + 8 of a tile in rows 2 i, 2 i + 1.
PK_DEVICE void add(float4& x, const float4& y) {
    x = {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

template <std::uint32_t Parts>
PK_DEVICE float4 sum_of_parts(const float4* sums, std::uint32_t stride) {
    float4 parts[Parts];
    PK_UNROLL
    for (std::uint32_t p = 0; p < Parts; ++p) parts[p] = sums[std::uint64_t{p} * stride];
    PK_UNROLL
    for (std::uint32_t p = 1; p < Parts; ++p) add(parts[0], parts[p]);
    return parts[0];
}

// The embeddings of the pass's tokens.
template <class C>
struct Embeddings {
    const C& crew;

    PK_DEVICE float4 load(std::uint32_t t, std::uint32_t n) const {
        using D = typename C::D;
        const std::uint32_t g = crew.lane() / 4, row = n * octet + crew.lane() % 4 * 2;
        const auto one = [&](std::uint32_t r, float& low, float& high) {
            const std::uint32_t last = crew.pass().rows - 1, there = r < last ? r : last;
            const Segment& segment = crew.pass().of(there);
            const std::uint32_t position = segment.position + there - segment.row;
            const std::int32_t token =
                crew.m.prompts[std::uint64_t{segment.sequence} * crew.m.context + position];
            const auto* from = crew.setup.embedding + std::uint64_t(token) * D::hidden + t * tile + g;
            low = pk::tile::to_float(from[0]);
            high = pk::tile::to_float(from[8]);
        };
        float4 x;
        one(row, x.x, x.z);
        one(row + 1, x.y, x.w);
        return x;
    }
};

// The residual stream with a projection's sums added to it.
template <class C, Stream Which>
struct Added {
    const C& crew;

    PK_DEVICE float4 load(std::uint32_t t, std::uint32_t n) const {
        constexpr Product product = product_of<typename C::D>(Which);
        const std::uint32_t at = fragment_offset(t, n, crew.lane());
        float4 x = crew.buffers.x[at];
        add(x, sum_of_parts<product.parts>(crew.buffers.sums + at, fragment_offset(product.tiles, 0, 0)));
        return x;
    }
};

// All consumers of all blocks. A warp has 8 rows and fold_columns columns at a time.
template <class Source, class C>
PK_DEVICE void renew_residual(C& crew, const pk::tile::bf16* norm) {
    using D = typename C::D;
    constexpr std::uint32_t tiles = fold_columns / tile, groups = D::hidden / fold_columns, together = 4;
    const Source source{crew};
    const std::uint32_t lane = crew.lane(), g = lane / 4, i = lane % 4;
    crew.share(crew.pass().octets() * groups, [&](std::uint32_t u) {
        const std::uint32_t n = u / groups, group = u % groups, row = n * octet + i * 2 + (g & 1);
        float squares[2] = {};
        _Pragma("unroll 1") for (std::uint32_t first = group * tiles; first < (group + 1) * tiles;
                                 first += together) {
            float4 x[together];
            float weight[together][2];
            PK_UNROLL
            for (std::uint32_t t = 0; t < together; ++t) {
                x[t] = source.load(first + t, n);
                weight[t][0] = pk::tile::to_float(norm[(first + t) * tile + g]);
                weight[t][1] = pk::tile::to_float(norm[(first + t) * tile + g + 8]);
            }
            std::uint32_t word[together][2];
            PK_UNROLL
            for (std::uint32_t t = 0; t < together; ++t) {
                const float4 v = x[t];
                crew.buffers.x[fragment_offset(first + t, n, lane)] = v;
                squares[0] = __fmaf_rn(v.x, v.x, __fmaf_rn(v.z, v.z, squares[0]));
                squares[1] = __fmaf_rn(v.y, v.y, __fmaf_rn(v.w, v.w, squares[1]));
                word[t][0] = detail::pair_columns(v.x * weight[t][0], v.y * weight[t][0], lane);
                word[t][1] = detail::pair_columns(v.z * weight[t][1], v.w * weight[t][1], lane);
            }
            PK_UNROLL
            for (std::uint32_t t = 0; t < together; t += 2) {
                *reinterpret_cast<uint4*>(crew.buffers.hidden +
                                          activation_offset((first + t) / 2, row, g / 2)) = {
                    word[t][0], word[t][1], word[t + 1][0], word[t + 1][1]};
            }
        }
        PK_UNROLL
        for (std::uint32_t step = 4; step < 32; step *= 2) {
            squares[0] += __shfl_xor_sync(~0u, squares[0], step);
            squares[1] += __shfl_xor_sync(~0u, squares[1], step);
        }
        if (g == 0) {
            *reinterpret_cast<float2*>(&crew.buffers.squares[group * pass_rows + n * octet + i * 2]) = {
                squares[0], squares[1]};
        }
    });
}

// Sines and cosines of the rows' positions, for all layers.
template <class C>
PK_DEVICE void put_angles(C& crew) {
    using D = typename C::D;
    constexpr std::uint32_t half = D::head / 2;
    for (std::uint32_t i = blockIdx.x * consumers + crew.thread(); i < crew.pass().rows * half;
         i += gridDim.x * consumers) {
        float2 a = {1, 0};
        if constexpr (D::has_rope) {
            const Segment& segment = crew.pass().of(i / half);
            const float position = static_cast<float>(segment.position + i / half - segment.row);
            const float angle = position * pk::tile::rope_table<D>.value[i % half];
            a = {::cosf(angle), ::sinf(angle)};
        }
        crew.buffers.angles[i] = a;
    }
}

#endif

}  // namespace mpk::cluster::prefill
