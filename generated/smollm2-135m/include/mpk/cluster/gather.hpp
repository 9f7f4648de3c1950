// The residual stream: x += partial sums of all clusters, then bf16(x * norm weight) and the squares of x go
// to the whole cluster. The factor 1 / rms is applied to the products, so nothing waits for all of x.
//
// Member m of a cluster needs slice m of x. Of a batch of one, that member of every cluster adds up the sums
// for itself. Of several rows that would be too much to read: each adds up some pieces, of 128 columns of a
// row, for that member of all clusters, who get the new x by the same way as the sums.
//
// Sums and new x come through global memory: bit 0 of every word says in which use of its buffer it was
// written, so a reader needs no flag and a writer no fence. (A relaxed 32-bit load sees one store's word or
// another's; nothing but that word is used.) Bit 0 is cleared before use, so results do not depend on the
// step. Rows of a call's steps only get fewer, so a row's words are written in every step that reads them. A
// buffer is written again two layers later, which depends on sums that its readers wrote after they had read
// it.
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

// Lanes 4 g + i with neighbouring g (columns) have values of rows 2 i and 2 i + 1 each: afterwards one has
// both columns of row 2 i, the other of row 2 i + 1, as a pair of bf16.
PK_DEVICE std::uint32_t pair_columns(float first_row, float second_row, std::uint32_t lane) {
    const bool second = (lane & 4) != 0;
    const float other = __shfl_xor_sync(~0u, second ? first_row : second_row, 4);
    return second ? bf16_pair(other, second_row) : bf16_pair(first_row, other);
}

// a = a * fa + b * fb, rounded the same wherever it is used.
PK_DEVICE float fold(float a, float fa, float b, float fb) {
    return __fmaf_rn(a, fa, __fmul_rn(b, fb));
}

PK_DEVICE float4 bf16_to_float4(uint2 v) {
    return {__uint_as_float(v.x << 16), __uint_as_float(v.x & 0xffff0000u), __uint_as_float(v.y << 16),
            __uint_as_float(v.y & 0xffff0000u)};
}

// Words of one use of a buffer of sums, or of one of new x, which has one source.
template <class D>
PK_DEVICE std::uint64_t sums_offset(std::uint32_t turn, std::uint32_t sources, std::uint32_t source,
                                    std::uint32_t row) {
    return ((std::uint64_t{turn & 1} * sources + source) * most_rows + row) * D::hidden;
}
PK_DEVICE std::uint32_t tag_of(std::uint32_t turn) {
    return turn >> 1 & 1;
}

// What a member has of the next activations, with room for all rows, and of their squares.
template <class B>
inline constexpr std::uint32_t slice_bytes = B::S::slice * B::rows_room * 2;
template <class B>
inline constexpr std::uint32_t squares_bytes = B::S::pieces * B::rows_room * 4;

// 128 columns of a row of the member's slice, of which a lane has four; some lanes none where the slice ends.
template <class B>
struct Piece {
    static constexpr std::uint32_t width = 128, slice = B::S::slice;
    std::uint32_t row, begin;  // columns of the slice

    PK_DEVICE static Piece of(std::uint32_t number) {
        return {number / B::S::pieces, number % B::S::pieces * width};
    }
    PK_DEVICE bool is_inside(std::uint32_t lane) const {
        return slice % width == 0 || begin + lane * 4 < slice;
    }
    // The lane's first column of x. Past the slice a lane works on its first columns, for nothing.
    PK_DEVICE std::uint32_t column(const B& block) const {
        return block.member() * slice + (is_inside(block.lane()) ? begin + block.lane() * 4 : 0);
    }
};

// Loads word[i] from address(i) until all of them carry the tag. All are on their way together: none may be
// looked at before the last is issued, as each takes all the way to L2 and back.
template <std::uint32_t Count, class B, class Address>
PK_DEVICE void wait_for_words(B& block, uint4 (&word)[Count], std::uint32_t tag, Address address) {
    const auto all = [&] {
        PK_UNROLL
        for (std::uint32_t i = 0; i < Count; ++i) word[i] = pk::ptx::load_relaxed_words(address(i));
        std::uint32_t wrong[4] = {};  // in bit 0; four chains
        PK_UNROLL
        for (std::uint32_t i = 0; i < Count; ++i) {
            const uint4 w = word[i];
            wrong[0] = pk::ptx::or_xor(wrong[0], w.x, tag);
            wrong[1] = pk::ptx::or_xor(wrong[1], w.y, tag);
            wrong[2] = pk::ptx::or_xor(wrong[2], w.z, tag);
            wrong[3] = pk::ptx::or_xor(wrong[3], w.w, tag);
        }
        return ((wrong[0] | wrong[1] | wrong[2] | wrong[3]) & 1) == 0;
    };
    const TimelineTrack::Time begin = block.track.now();
    block.patience.until_all(all, block.op, block.step());
    block.record_wait(begin, block.op);
}

PK_DEVICE float clear_tag(std::uint32_t word) {
    return __uint_as_float(word & ~1u);
}
PK_DEVICE float4 clear_tags(uint4 word) {
    return {clear_tag(word.x), clear_tag(word.y), clear_tag(word.z), clear_tag(word.w)};
}

// The embedding of the row's token.
template <class B>
PK_DEVICE float4 embedded(const B& block, const Piece<B>& piece) {
    const std::uint64_t token = block.board().token[piece.row];
    const auto* row = block.setup.embedding + token * B::D::hidden + piece.column(block);
    return bf16_to_float4(*reinterpret_cast<const uint2*>(row));
}

// The new x of a piece, from what this block has of it in place `kept` of L::residual. One warp.
template <class B>
PK_DEVICE float4 add_sums(B& block, Source source, std::uint32_t turn, const Piece<B>& piece,
                          std::uint32_t kept) {
    auto* place = block.template at<float4>(B::L::residual) + kept * 32 + block.lane();
    if (source == Source::embedding) return *place = embedded(block, piece);
    const bool output = source == Source::output;
    const std::uint32_t count = output ? B::S::groups : block.setup.clusters;
    const std::uint32_t* sums = (output ? block.setup.output_sums : block.setup.down_sums) +
                                sums_offset<typename B::D>(turn, block.setup.clusters, 0, piece.row) +
                                piece.column(block);
    constexpr std::uint64_t step = std::uint64_t{most_rows} * B::D::hidden;
    uint4 word[most_clusters];
    // A load for nothing costs less than a branch, before which the compiler would test the first.
    wait_for_words(block, word, tag_of(turn),
                   [&](std::uint32_t c) { return sums + (c < B::S::groups || c < count ? c : 0) * step; });
    float4 x = *place;
    PK_UNROLL
    for (std::uint32_t c = 0; c < most_clusters; ++c) {
        if (c >= count) continue;
        const float4 sum = clear_tags(word[c]);
        x = {x.x + sum.x, x.y + sum.y, x.z + sum.z, x.w + sum.w};
    }
    // The bit of the tag, so that x is the same whichever way it goes.
    x = clear_tags({__float_as_uint(x.x), __float_as_uint(x.y), __float_as_uint(x.z), __float_as_uint(x.w)});
    return *place = x;
}

// A piece of the next activations and its squares: of a batch of one to all members, of several rows to this
// block's memory. One warp.
template <class B>
PK_DEVICE void put_activations(B& block, const Piece<B>& piece, uint2 weights, float4 x) {
    using L = typename B::L;
    constexpr std::uint32_t R = B::rows_room, width = Piece<B>::width, slice = B::S::slice;
    const std::uint32_t lane = block.lane(), first = block.member() * slice + piece.begin;
    const bool inside = piece.is_inside(lane);
    if (!inside) x = {};
    const float4 weight = bf16_to_float4(weights);
    const std::uint32_t pair[2] = {bf16_pair(x.x * weight.x, x.y * weight.y),
                                   bf16_pair(x.z * weight.z, x.w * weight.w)};
    const float squares =
        pk::warp_sum(__fmaf_rn(x.x, x.x, __fmaf_rn(x.y, x.y, __fmaf_rn(x.z, x.z, __fmul_rn(x.w, x.w)))));
    const std::uint32_t squares_at =
        L::squares + ((block.member() * B::S::pieces + piece.begin / width) * R + piece.row) * 4;
    if constexpr (R == 1) {
        // Through shared memory, so that each store to a peer carries 16 bytes.
        unsigned char* stage = block.template at<unsigned char>(L::stage + block.warp() * L::stage_bytes);
        __syncwarp();
        PK_UNROLL
        for (std::uint32_t p = 0; p < 2; ++p) {
            *reinterpret_cast<std::uint32_t*>(stage + pair_offset(1, lane * 4 + p * 2, 0)) = pair[p];
        }
        __syncwarp();
        const std::uint32_t left = slice - piece.begin, sends = (left < width ? left : width) / 8;
        PK_UNROLL
        for (std::uint32_t first_send = 0; first_send < width / 8; first_send += 32 / members) {
            const std::uint32_t i = first_send + lane / members;
            if (i >= sends) continue;
            block.send(Exchange::hidden, L::hidden + first * 2 + i * 16,
                       *reinterpret_cast<const uint4*>(stage + i * 16));
        }
        if (lane < members) block.send(Exchange::hidden, squares_at, __float_as_uint(squares));
    } else {
        PK_UNROLL
        for (std::uint32_t p = 0; p < 2; ++p) {
            const std::uint32_t at = L::hidden + pair_offset(R, first + lane * 4 + p * 2, piece.row);
            if (inside) *block.template at<std::uint32_t>(at) = pair[p];
        }
        if (lane == 0) *block.template at<float>(squares_at) = squares;
    }
}

// Of several rows the slice that all warps have put, with its squares, to the other members. A warp a member.
template <class B>
PK_DEVICE void copy_activations(B& block) {
    using L = typename B::L;
    constexpr std::uint32_t bytes = slice_bytes<B>, squares = squares_bytes<B>;
    static_assert(members == consumer_warps);
    pk::ptx::fence_proxy_async_shared();
    block.sync();
    if (block.lane() != 0 || block.warp() == block.member()) return;
    block.copy_to(block.warp(), Exchange::hidden, L::hidden + block.member() * bytes, bytes);
    block.copy_to(block.warp(), Exchange::hidden, L::squares + block.member() * squares, squares);
}

// Several rows: the new x of this block's share of the pieces of its slice, to the blocks with the same
// slice.
template <class B>
PK_DEVICE void share_pieces(B& block, Source source, std::uint32_t turn, std::uint32_t* shared) {
    const std::uint32_t clusters = block.setup.clusters, all = uniform(block.rows()) * B::S::pieces;
    for (std::uint32_t k = block.uniform_warp(), u; (u = block.cluster() + k * clusters) < all;
         k += consumer_warps) {
        const auto piece = Piece<B>::of(u);
        const float4 x = add_sums(block, source, turn, piece, k);
        if (source == Source::embedding || !piece.is_inside(block.lane())) continue;
        const std::uint32_t tag = tag_of(turn);
        pk::ptx::store_relaxed_words(shared + std::uint64_t{piece.row} * B::D::hidden + piece.column(block),
                                     {__float_as_uint(x.x) | tag, __float_as_uint(x.y) | tag,
                                      __float_as_uint(x.z) | tag, __float_as_uint(x.w) | tag});
    }
}

}  // namespace detail

// Adds the sums of `source` to the residual stream. If `send`, all members get normed activations in
// L::hidden and L::scales. All consumers call.
template <class B>
PK_DEVICE void gather(B& block, Source source, const pk::tile::bf16* weights, std::uint32_t turn, bool send) {
    using D = typename B::D;
    using S = typename B::S;
    const std::uint32_t rows = uniform(block.rows()), all = rows * S::pieces;
    // Of a batch of one from all members, of several rows from the others.
    constexpr std::uint32_t from = B::rows_room == 1 ? members : members - 1;
    if (send) block.expect(Exchange::hidden, from * (detail::slice_bytes<B> + detail::squares_bytes<B>));
    const auto weights_of = [&](const detail::Piece<B>& piece) {
        return *reinterpret_cast<const uint2*>(weights + piece.column(block));
    };
    if constexpr (B::rows_room == 1) {
        _Pragma("unroll 1") for (std::uint32_t u = block.uniform_warp(); u < all; u += consumer_warps) {
            const auto piece = detail::Piece<B>::of(u);
            const uint2 weight = weights_of(piece);
            const float4 x = detail::add_sums(block, source, turn, piece, u);
            if (send) detail::put_activations(block, piece, weight, x);
        }
    } else {
        std::uint32_t* shared = (source == Source::output ? block.setup.output_x : block.setup.down_x) +
                                detail::sums_offset<D>(turn, 1, 0, 0);
        detail::share_pieces(block, source, turn, shared);
        if (!send) return;
        // Until this block has found its sums it looks for nothing else: looks are in the way of stores.
        block.sync();
        constexpr std::uint32_t together = 4;
        _Pragma("unroll 1") for (std::uint32_t u = block.uniform_warp(); u < all;
                                 u += together * consumer_warps) {
            detail::Piece<B> piece[together];
            uint2 weight[together];
            uint4 word[together];
            PK_UNROLL
            for (std::uint32_t i = 0; i < together; ++i) {
                // Past the end the first once more, whose result is dropped.
                piece[i] = detail::Piece<B>::of(u + i * consumer_warps < all ? u + i * consumer_warps : u);
                weight[i] = weights_of(piece[i]);
            }
            if (source != Source::embedding) {
                detail::wait_for_words(block, word, detail::tag_of(turn), [&](std::uint32_t i) {
                    return shared + std::uint64_t{piece[i].row} * D::hidden + piece[i].column(block);
                });
            }
            PK_UNROLL
            for (std::uint32_t i = 0; i < together; ++i) {
                if (u + i * consumer_warps >= all) continue;
                const float4 x = source == Source::embedding ? detail::embedded(block, piece[i])
                                                             : detail::clear_tags(word[i]);
                detail::put_activations(block, piece[i], weight[i], x);
            }
        }
        detail::copy_activations(block);
    }
    if (!send) return;
    block.wait(Exchange::hidden, block.op + 1);
    _Pragma("unroll 1") for (std::uint32_t row = block.uniform_warp(); row < rows; row += consumer_warps) {
        const auto* squares = block.template at<const float>(B::L::squares) + row;
        float total = 0;
        for (std::uint32_t i = block.lane(); i < members * S::pieces; i += 32)
            total += squares[i * B::rows_room];
        total = pk::warp_sum(total);
        if (block.lane() == 0) {
            block.template at<float>(B::L::scales)[row] =
                1.0f / sqrtf(total / D::hidden + static_cast<float>(D::eps));
        }
    }
    block.sync();
}

#endif

}  // namespace mpk::cluster
