// From the sums of the QKV projection to queries, keys and values: scaled, normed if the model does, rotated;
// keys and values to the cache.
#pragma once

#include "mpk/cluster/prefill/residual.hpp"

namespace mpk::cluster::prefill {

#if PK_SM90

// Lane 4 g + i has columns 8 b + g, for every b, of rows 2 i and 2 i + 1: afterwards it has pieces of 8
// columns of one row, row 2 i + (g & 1): pieces 4 k + g / 2 as result[k]. value(b, which of the rows).
template <std::uint32_t Pieces, class Value>
PK_DEVICE void collect_pieces(uint4 (&result)[Pieces / 4], std::uint32_t lane, Value value) {
    const bool upper = (lane & 16) != 0, odd = (lane & 8) != 0;
    // Two elements of a lane's four are swapped with those of the lane `step` away.
    const auto swap = [](std::uint32_t& low, std::uint32_t& high, bool second, std::uint32_t step) {
        const std::uint32_t other = __shfl_xor_sync(~0u, second ? low : high, step);
        (second ? low : high) = other;
    };
    PK_UNROLL
    for (std::uint32_t k = 0; k < Pieces / 4; ++k) {
        std::uint32_t word[4];  // columns 2 (g / 2), + 1 of pieces 4 k ..
        PK_UNROLL
        for (std::uint32_t b = 0; b < 4; ++b) {
            word[b] = detail::pair_columns(value(4 * k + b, 0), value(4 * k + b, 1), lane);
        }
        swap(word[0], word[2], upper, 16);
        swap(word[1], word[3], upper, 16);
        swap(word[0], word[1], odd, 8);
        swap(word[2], word[3], odd, 8);
        result[k] = {word[0], word[1], word[2], word[3]};
    }
}

// All consumers of all blocks, after load_scales. A warp has 8 rows of one head at a time.
template <class C>
PK_DEVICE void make_heads(C& crew, std::uint32_t layer) {
    using D = typename C::D;
    using S = typename C::S;
    constexpr std::uint32_t tiles = D::head / tile, pieces = D::head / 8, half = D::head / 2;
    constexpr std::uint32_t heads = S::group_heads, vectors = S::groups * (heads + 2);
    constexpr Product product = product_of<D>(Stream::qkv);
    const std::uint32_t lane = crew.lane(), g = lane / 4, i = lane % 4;
    crew.share(crew.pass().octets() * vectors, [&](std::uint32_t u) {
        const std::uint32_t n = u / vectors, vector = u % vectors;
        const std::uint32_t group = vector / (heads + 2), h = vector % (heads + 2);
        const float2 scale = crew.template at<const float2>(Memory::scales)[n * 4 + i];
        float4 x[tiles];  // columns g, g + 8 of rows 2 i, 2 i + 1
        PK_UNROLL
        for (std::uint32_t t = 0; t < tiles; ++t) {
            x[t] =
                sum_of_parts<product.parts>(crew.buffers.sums + fragment_offset(vector * tiles + t, n, lane),
                                            fragment_offset(product.tiles, 0, 0));
            x[t] = {x[t].x * scale.x, x[t].y * scale.y, x[t].z * scale.x, x[t].w * scale.y};
        }
        const auto norm = [&](const pk::tile::bf16* weights) {
            float squares[2] = {};
            PK_UNROLL
            for (std::uint32_t t = 0; t < tiles; ++t) {
                squares[0] = __fmaf_rn(x[t].x, x[t].x, __fmaf_rn(x[t].z, x[t].z, squares[0]));
                squares[1] = __fmaf_rn(x[t].y, x[t].y, __fmaf_rn(x[t].w, x[t].w, squares[1]));
            }
            PK_UNROLL
            for (std::uint32_t e = 0; e < 2; ++e) {
                PK_UNROLL
                for (std::uint32_t step = 4; step < 32; step *= 2) {
                    squares[e] += __shfl_xor_sync(~0u, squares[e], step);
                }
                squares[e] = 1.0f / sqrtf(squares[e] / D::head + static_cast<float>(D::head_eps));
            }
            PK_UNROLL
            for (std::uint32_t t = 0; t < tiles; ++t) {
                const float low = pk::tile::to_float(weights[t * tile + g]);
                const float high = pk::tile::to_float(weights[t * tile + g + 8]);
                x[t] = {x[t].x * (squares[0] * low), x[t].y * (squares[1] * low),
                        x[t].z * (squares[0] * high), x[t].w * (squares[1] * high)};
            }
        };
        const auto rotate = [&] {
            const float2* angles = crew.buffers.angles + (n * octet + 2 * i) * half;
            const auto turn = [](float& low, float& high, float2 a) {
                const float turned = __fmaf_rn(low, a.x, -__fmul_rn(high, a.y));
                high = __fmaf_rn(high, a.x, __fmul_rn(low, a.y));
                low = turned;
            };
            PK_UNROLL
            for (std::uint32_t t = 0; t < tiles / 2; ++t) {
                const std::uint32_t j = t * tile + g;
                turn(x[t].x, x[t + tiles / 2].x, angles[j]);
                turn(x[t].y, x[t + tiles / 2].y, angles[half + j]);
                turn(x[t].z, x[t + tiles / 2].z, angles[j + 8]);
                turn(x[t].w, x[t + tiles / 2].w, angles[half + j + 8]);
            }
        };
        const bool is_query = h < heads, is_value = h == heads + 1;
        if constexpr (D::has_q_norm) {
            if (is_query) norm(crew.weights(layer).q_norm);
        }
        if constexpr (D::has_k_norm) {
            if (h == heads) norm(crew.weights(layer).k_norm);
        }
        if constexpr (D::has_rope) {
            if (!is_value) rotate();
        }
        const float factor = is_query ? static_cast<float>(D::scale) : 1.0f;
        uint4 piece[pieces / 4];
        collect_pieces<pieces>(piece, lane, [&](std::uint32_t b, std::uint32_t e) {
            const float4 v = x[b / 2];
            return (b % 2 == 0 ? (e == 0 ? v.x : v.y) : (e == 0 ? v.z : v.w)) * factor;
        });
        const std::uint32_t row = n * octet + 2 * i + (g & 1);
        if (row >= crew.pass().rows) return;
        if (is_query) {
            auto* to = reinterpret_cast<uint4*>(crew.buffers.queries) +
                       ((row * S::groups + group) * heads + h) * pieces;
            PK_UNROLL
            for (std::uint32_t k = 0; k < pieces / 4; ++k) to[4 * k + g / 2] = piece[k];
            return;
        }
        const Segment& segment = crew.pass().of(row);
        const std::uint32_t position = segment.position + row - segment.row, token = position % D::kv_page;
        const std::uint32_t page =
            crew.m.kv.page_table[segment.sequence * crew.m.kv.pages_per_sequence + position / D::kv_page];
        auto* to = static_cast<unsigned char*>(crew.m.kv.data) +
                   cache_offset<D>(crew.m, layer, page, group, token) + (is_value ? values_offset<D> : 0);
        PK_UNROLL
        for (std::uint32_t k = 0; k < pieces / 4; ++k) {
            *reinterpret_cast<uint4*>(to + swizzled<D>(token % unit, 4 * k + g / 2)) = piece[k];
        }
    });
}

#endif

}  // namespace mpk::cluster::prefill
