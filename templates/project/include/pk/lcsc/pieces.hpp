// How the sums of a tile lie in memory between those who compute them and those who add them up.
#pragma once

#include "pk/lcsc/layout.hpp"
#include "pk/ptx/system_memory.hpp"
#include "pk/tile/element.hpp"

namespace pk::lcsc {

// The sums as they lie in registers: piece q of 16 bytes of thread t at (q * threads + t) * 16. What pushes
// it copies bytes, and whoever adds them, thread t reads its own. Sent: f32, or 16 bits for elements.
template <class C, class Sent>
struct PiecesOf {
    static constexpr std::uint32_t per_piece = 16 / sizeof(Sent), count = Layout<C>::sums / per_piece;

    PK_DEVICE static uint4 pack(const float* c) {
        if constexpr (sizeof(Sent) == 4) {
            return {__float_as_uint(c[0]), __float_as_uint(c[1]), __float_as_uint(c[2]),
                    __float_as_uint(c[3])};
        } else {
            using E = tile::Element<typename C::Type>;
            return {E::pack(c[0], c[1]), E::pack(c[2], c[3]), E::pack(c[4], c[5]), E::pack(c[6], c[7])};
        }
    }
    PK_DEVICE static void add(uint4 v, float* c) {
        const std::uint32_t w[4] = {v.x, v.y, v.z, v.w};
        PK_UNROLL
        for (std::uint32_t n = 0; n < 4; ++n) {
            if constexpr (sizeof(Sent) == 4) {
                c[n] += __uint_as_float(w[n]);
            } else {
                float low, high;
                tile::Element<typename C::Type>::unpack(w[n], low, high);
                c[n * 2] += low;
                c[n * 2 + 1] += high;
            }
        }
    }
    // Of a piece, from the first one's of all threads.
    PK_DEVICE static std::uint32_t at(std::uint32_t piece, std::uint32_t thread) {
        return (piece * consumer_threads + thread) * 16;
    }
};
template <class C>
using Pieces = PiecesOf<C, typename C::Partial>;  // to peers
template <class C>
using WholePieces = PiecesOf<C, float>;

template <class P, std::uint32_t Sums>
PK_DEVICE void store_sums(unsigned char* to, std::uint32_t thread, const float (&c)[Sums]) {
    PK_UNROLL
    for (std::uint32_t q = 0; q < P::count; ++q)
        ptx::store_16(to + P::at(q, thread), P::pack(c + q * P::per_piece));
}

template <class P, std::uint32_t Sums>
PK_DEVICE void add_sums(const unsigned char* from, std::uint32_t thread, float (&c)[Sums]) {
    constexpr std::uint32_t batch = 8;
    PK_UNROLL
    for (std::uint32_t first = 0; first < P::count; first += batch) {
        uint4 v[batch];
        PK_UNROLL
        for (std::uint32_t q = 0; q < batch; ++q) v[q] = ptx::load_past_l1(from + P::at(first + q, thread));
        PK_UNROLL
        for (std::uint32_t q = 0; q < batch; ++q) P::add(v[q], c + (first + q) * P::per_piece);
    }
}

}  // namespace pk::lcsc
