// reduce: elements of the same tensor on all ranks, summed in the order of the ranks, to one place.
// all_reduce: the same, to the same place of every rank.
//
// Some threads share the work: thread `thread` of `threads` does every threads-th piece of 16 bytes; the host
// twin is one thread or several. Loads go past L1, in the generic proxy. Before, the caller has waited for a
// flag by which each rank released its tensor, in each of the threads or in one with which they have
// synchronized. After, a rank may overwrite what was read when it has waited for a flag that the caller
// signals once all threads are through; that signal also releases what was stored. With all_reduce in place,
// a rank reads pieces that only it writes, so that the pieces of all ranks must not overlap.
#pragma once

#include "pk/memory/peer_tensor.hpp"
#if PK_CUDA
#include "pk/ptx/system_memory.hpp"
#include "pk/tile/element.hpp"
#else
#include <cstring>

#include "pk/tile/element_host.hpp"
#endif

namespace pk {

namespace detail {

struct Piece {
    std::uint32_t words[4];
};
inline constexpr std::uint32_t piece_bytes = sizeof(Piece);

PK_DEVICE Piece load_piece(const char* from) {
#if PK_CUDA
    const uint4 v = ptx::load_past_l1(from);
    return {{v.x, v.y, v.z, v.w}};
#else
    Piece piece;
    std::memcpy(&piece, from, sizeof piece);
    return piece;
#endif
}

PK_DEVICE void store_piece(char* to, const Piece& piece) {
#if PK_CUDA
    ptx::store_16(to, {piece.words[0], piece.words[1], piece.words[2], piece.words[3]});
#else
    std::memcpy(to, &piece, sizeof piece);
#endif
}

template <class Type>
PK_DEVICE Piece sum_of_ranks(const memory::PeerTensor<char>& tensor, std::uint64_t at) {
    float sums[8] = {};
    for (std::uint32_t r = 0; r < tensor.world; ++r) {
        const Piece piece = load_piece(tensor.at[r] + at);
        PK_UNROLL
        for (std::uint32_t n = 0; n < 4; ++n) {
            float low, high;
            tile::Element<Type>::unpack(piece.words[n], low, high);
            sums[n * 2] += low;
            sums[n * 2 + 1] += high;
        }
    }
    Piece piece;
    PK_UNROLL
    for (std::uint32_t n = 0; n < 4; ++n) {
        piece.words[n] = tile::Element<Type>::pack(sums[n * 2], sums[n * 2 + 1]);
    }
    return piece;
}

}  // namespace detail

// `bytes` from byte `at` of the tensor on, multiples of 16; `to` is where they begin.
template <class Type>
PK_DEVICE void reduce(char* to, const memory::PeerTensor<char>& tensor, std::uint64_t at, std::uint64_t bytes,
                      std::uint32_t thread, std::uint32_t threads) {
    const std::uint64_t step = std::uint64_t{threads} * detail::piece_bytes;
    for (std::uint64_t p = std::uint64_t{thread} * detail::piece_bytes; p < bytes; p += step) {
        detail::store_piece(to + p, detail::sum_of_ranks<Type>(tensor, at + p));
    }
}

template <class Type>
PK_DEVICE void all_reduce(const memory::PeerTensor<char>& to, const memory::PeerTensor<char>& tensor,
                          std::uint64_t at, std::uint64_t bytes, std::uint32_t thread,
                          std::uint32_t threads) {
    const std::uint64_t step = std::uint64_t{threads} * detail::piece_bytes;
    for (std::uint64_t p = at + std::uint64_t{thread} * detail::piece_bytes; p < at + bytes; p += step) {
        const detail::Piece sum = detail::sum_of_ranks<Type>(tensor, p);
        for (std::uint32_t n = 0; n < to.world; ++n) detail::store_piece(to.at[to.after(n)] + p, sum);
    }
}

}  // namespace pk
