// The residual stream: x += partial sums of all clusters, then bf16(x * norm weight) and the squares of x go
// to the whole cluster. The factor 1 / rms is applied to the products, so nothing waits for all of x.
//
// Each member owns a slice of x in every cluster. The partial sums come through global memory: bit 0 of every
// word says in which use of its buffer it was written, so a reader needs no flag and a writer no fence. (A
// relaxed 32-bit load sees one store's word or another's; nothing but that word is used.) Bit 0 is cleared
// before use, so results do not depend on the step. Rows of a call's steps only get fewer, so a row's words
// are written in every step that reads them. A buffer is written again two layers later, which depends on
// sums that its readers wrote after they had read it.
#pragma once

#include "mpk/cluster/block.hpp"
#include "pk/ptx/bits.hpp"
#include "pk/ptx/convert.hpp"
#include "pk/ptx/load.hpp"
#include "pk/tile/bf16.hpp"

namespace mpk::cluster {

#if PK_SM90

enum class Source { embedding, output, down };

namespace detail {

PK_DEVICE std::uint32_t bf16_pair(float low, float high) {
    return pk::ptx::to_bf16_pair(low, high);
}

// a = a * fa + b * fb, rounded the same wherever it is used.
PK_DEVICE float fold(float a, float fa, float b, float fb) {
    return __fmaf_rn(a, fa, __fmul_rn(b, fb));
}

PK_DEVICE float4 bf16_to_float4(uint2 v) {
    return {__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u), __uint_as_float(v.y << 16),
            __uint_as_float(v.y & 0xffff0000u)};
}

// Words of the sums of one use of the buffer.
template <class D>
PK_DEVICE std::uint64_t sums_offset(std::uint32_t turn, std::uint32_t clusters, std::uint32_t cluster,
                                    std::uint32_t row) {
    return ((std::uint64_t{turn & 1} * clusters + cluster) * most_rows + row) * D::hidden;
}

// Four columns of a row that a lane works on.
struct Piece {
    std::uint32_t row, begin;   // first column of the warp's
    uint2 weight;               // of the norm, four bf16
    const std::uint32_t* sums;  // of the first cluster
};

template <std::uint32_t Pieces>
using Words = uint4[Pieces][most_clusters];

// The words of `count` clusters, of those with a group or of all, for several pieces, whose loads are on
// their way together: none may be looked at before the last is issued, as each takes all the way to L2 and
// back.
template <std::uint32_t Pieces, class B>
PK_DEVICE void wait_for_sums(B& block, const Piece (&pieces)[Pieces], std::uint32_t count, std::uint32_t tag,
                             Words<Pieces>& word) {
    constexpr std::uint64_t step = std::uint64_t{most_rows} * B::D::hidden;
    constexpr std::uint32_t groups = B::S::groups;
    // Of one piece a load for nothing costs less than a branch, before which the compiler would test the
    // first.
    const bool more = Pieces == 1 || count > groups;
    const auto all = [&] {
        PK_UNROLL
        for (std::uint32_t p = 0; p < Pieces; ++p) {
            PK_UNROLL
            for (std::uint32_t c = 0; c < groups; ++c) {
                word[p][c] = pk::ptx::load_relaxed_words(pieces[p].sums + c * step);
            }
            PK_UNROLL
            for (std::uint32_t c = groups; c < most_clusters; ++c) word[p][c] = {tag, tag, tag, tag};
        }
        if (more) {
            PK_UNROLL
            for (std::uint32_t p = 0; p < Pieces; ++p) {
                PK_UNROLL
                for (std::uint32_t c = groups; c < most_clusters; ++c) {
                    word[p][c] = pk::ptx::load_relaxed_words(pieces[p].sums + (c < count ? c : 0) * step);
                }
            }
        }
        std::uint32_t wrong[4] = {};  // in bit 0; four chains
        PK_UNROLL
        for (std::uint32_t p = 0; p < Pieces; ++p) {
            PK_UNROLL
            for (std::uint32_t c = 0; c < most_clusters; ++c) {
                const uint4 w = word[p][c];
                wrong[0] = pk::ptx::or_xor(wrong[0], w.x, tag);
                wrong[1] = pk::ptx::or_xor(wrong[1], w.y, tag);
                wrong[2] = pk::ptx::or_xor(wrong[2], w.z, tag);
                wrong[3] = pk::ptx::or_xor(wrong[3], w.w, tag);
            }
        }
        return ((wrong[0] | wrong[1] | wrong[2] | wrong[3]) & 1) == 0;
    };
    const TimelineTrack::Time begin = block.track.now();
    block.patience.until(all, block.op, block.step);
    block.record_wait(begin, block.op);
}

// x + the words of `count` clusters, in their order.
PK_DEVICE float4 add_words(float4 x, const uint4 (&word)[most_clusters], std::uint32_t count) {
    PK_UNROLL
    for (std::uint32_t c = 0; c < most_clusters; ++c) {
        if (c >= count) continue;
        x.x += __uint_as_float(word[c].x & ~1u);
        x.y += __uint_as_float(word[c].y & ~1u);
        x.z += __uint_as_float(word[c].z & ~1u);
        x.w += __uint_as_float(word[c].w & ~1u);
    }
    return x;
}

}  // namespace detail

// Updates this member's slice of x. If `send`, all members get normed activations in L::hidden and
// L::scales; all consumers call and may read them after the next barrier of the block.
template <class B>
PK_DEVICE void gather(B& block, Source source, const pk::tile::bf16* weights, std::uint32_t turn, bool send) {
    using D = typename B::D;
    using L = typename B::L;
    using S = typename B::S;
    constexpr std::uint32_t R = B::rows_room, width = 128;  // columns that a warp works on
    constexpr std::uint32_t pieces = S::pieces, all_pieces = members * pieces;
    const std::uint32_t rows = block.rows(), lane = block.lane(), first = block.member() * S::slice;
    if (send) block.expect(Exchange::hidden, rows * (D::hidden * 2 + all_pieces * 4));
    auto* residual = block.template at<float>(L::residual);

    const auto is_inside = [&](const detail::Piece& piece) {
        return S::slice % width == 0 || piece.begin + lane * 4 < S::slice;
    };
    // The lane's four columns of the residual stream.
    const auto slice_of = [&](const detail::Piece& piece) {
        return reinterpret_cast<float4*>(&residual[piece.row * S::slice + piece.begin + lane * 4]);
    };
    const auto start = [&](std::uint32_t u) {
        detail::Piece piece = {u / pieces, u % pieces * width, {}, nullptr};
        // Past the slice a lane works on its first columns, for nothing.
        const std::uint32_t column = first + (is_inside(piece) ? piece.begin + lane * 4 : 0);
        piece.weight = *reinterpret_cast<const uint2*>(weights + column);
        piece.sums = (source == Source::output ? block.setup.output_sums : block.setup.down_sums) +
                     detail::sums_offset<D>(turn, block.setup.clusters, 0, piece.row) + column;
        return piece;
    };
    const auto embedded = [&](const detail::Piece& piece) {
        const std::int32_t token = block.board().token[piece.row];
        const auto* row = block.setup.embedding + std::uint64_t(token) * D::hidden;
        return detail::bf16_to_float4(*reinterpret_cast<const uint2*>(row + first + piece.begin + lane * 4));
    };
    const auto finish = [&](const detail::Piece& piece, float4 x) {
        if (!is_inside(piece)) x = {};
        if (is_inside(piece)) *slice_of(piece) = x;
        if (!send) return;
        const float4 weight = detail::bf16_to_float4(piece.weight);
        // Through shared memory, so that each store to a peer carries 16 bytes.
        unsigned char* stage = block.template at<unsigned char>(L::stage + block.warp() * 256);
        __syncwarp();
        *reinterpret_cast<uint2*>(stage + lane * 8) = {detail::bf16_pair(x.x * weight.x, x.y * weight.y),
                                                       detail::bf16_pair(x.z * weight.z, x.w * weight.w)};
        __syncwarp();
        const std::uint32_t left = S::slice - piece.begin, sends = (left < width ? left : width) / 8;
        for (std::uint32_t i = lane / members; i < sends; i += 32 / members) {
            const std::uint32_t at = first + piece.begin + i * 8;
            block.send(Exchange::hidden, L::hidden + at / chunk * (R * 64) + piece.row * 64 + at % chunk * 2,
                       *reinterpret_cast<const uint4*>(stage + i * 16));
        }
        const float squares =
            pk::warp_sum(__fmaf_rn(x.x, x.x, __fmaf_rn(x.y, x.y, __fmaf_rn(x.z, x.z, __fmul_rn(x.w, x.w)))));
        if (lane < members) {
            const std::uint32_t number = block.member() * pieces + piece.begin / width;
            block.send(Exchange::hidden, L::squares + (number * R + piece.row) * 4, __float_as_uint(squares));
        }
    };

    // Of several rows a warp has two pieces at a time: what it waits for is the way to L2 and back.
    constexpr std::uint32_t together = R == 1 ? 1 : 2;
    const std::uint32_t all = rows * pieces;
    _Pragma("unroll 1") for (std::uint32_t u = block.warp(); u < all; u += together * consumer_warps) {
        detail::Piece piece[together];
        PK_UNROLL
        for (std::uint32_t i = 0; i < together; ++i) {
            // Past the end the first once more, whose result is dropped.
            piece[i] = start(u + i * consumer_warps < all ? u + i * consumer_warps : u);
        }
        float4 x[together] = {};
        if (source != Source::embedding) {
            detail::Words<together> word;
            const std::uint32_t clusters = source == Source::output ? S::groups : block.setup.clusters;
            detail::wait_for_sums(block, piece, clusters, turn >> 1 & 1, word);
            PK_UNROLL
            for (std::uint32_t i = 0; i < together; ++i) {
                if (is_inside(piece[i])) x[i] = *slice_of(piece[i]);
                x[i] = detail::add_words(x[i], word[i], clusters);
            }
        } else {
            PK_UNROLL
            for (std::uint32_t i = 0; i < together; ++i) {
                if (is_inside(piece[i])) x[i] = embedded(piece[i]);
            }
        }
        PK_UNROLL
        for (std::uint32_t i = 0; i < together; ++i) {
            if (u + i * consumer_warps < all) finish(piece[i], x[i]);
        }
    }
    if (!send) return;
    block.wait(Exchange::hidden, block.op + 1);
    // Nobody reads the sums of the products before any more.
    block.sync();
    _Pragma("unroll 1") for (std::uint32_t row = block.warp(); row < rows; row += consumer_warps) {
        const auto* squares = block.template at<const float>(L::squares) + row;
        float total = 0;
        for (std::uint32_t i = lane; i < all_pieces; i += 32) total += squares[i * R];
        total = pk::warp_sum(total);
        if (lane == 0) {
            block.template at<float>(L::scales)[row] =
                1.0f / sqrtf(total / D::hidden + static_cast<float>(D::eps));
        }
    }
}

#endif

}  // namespace mpk::cluster
