// Collectives by themselves: every thread moves pieces of 16 bytes, from one rank or summed over all, to one
// rank or to all. What moves where is the only thing in which they differ.
#pragma once

#include "pk/lcsc/together.hpp"
#include "pk/ptx/system_memory.hpp"
#include "pk/tile/element.hpp"

namespace pk::lcsc {

namespace detail {

template <class Type>
struct SumOfPieces {
    float v[8] = {};
    PK_DEVICE void add(uint4 p) {
        const std::uint32_t w[4] = {p.x, p.y, p.z, p.w};
        PK_UNROLL
        for (std::uint32_t n = 0; n < 4; ++n) {
            float low, high;
            tile::Element<Type>::unpack(w[n], low, high);
            v[n * 2] += low;
            v[n * 2 + 1] += high;
        }
    }
    PK_DEVICE uint4 result() const {
        using E = tile::Element<Type>;
        return {E::pack(v[0], v[1]), E::pack(v[2], v[3]), E::pack(v[4], v[5]), E::pack(v[6], v[7])};
    }
};

// 16 bytes of this device or a peer.
PK_DEVICE uint4 piece(const void* base, std::uint64_t at) {
    return ptx::load_past_l1(static_cast<const uint4*>(base) + at);
}

// reduce: pieces `at` + n * step of all ranks, in their order.
template <class Type, std::uint32_t Count>
PK_DEVICE void sum(const Moves& m, std::uint64_t at, std::uint64_t step, uint4 (&v)[Count]) {
    SumOfPieces<Type> sums[Count];
    for (std::uint32_t r = 0; r < m.world; ++r) {
        PK_UNROLL
        for (std::uint32_t n = 0; n < Count; ++n) v[n] = piece(m.ins[r], at + n * step);
        PK_UNROLL
        for (std::uint32_t n = 0; n < Count; ++n) sums[n].add(v[n]);
    }
    PK_UNROLL
    for (std::uint32_t n = 0; n < Count; ++n) v[n] = sums[n].result();
}

}  // namespace detail

// The pieces of this rank's shard of rows.
template <Collective What, class Type, std::uint32_t Count>
PK_DEVICE void move_shard(const Moves& m, std::uint64_t begin, std::uint64_t at, std::uint64_t step) {
    uint4 v[Count];
    if constexpr (sums(What)) {
        detail::sum<Type>(m, begin + at, step, v);
    } else {
        PK_UNROLL
        for (std::uint32_t n = 0; n < Count; ++n) v[n] = detail::piece(m.ins[m.rank], at + n * step);
    }
    PK_UNROLL
    for (std::uint32_t n = 0; n < Count; ++n) {
        const std::uint64_t p = at + n * step;
        if constexpr (What == Collective::scatter) {
            ptx::store_16(static_cast<uint4*>(m.outs[m.rank]) + p, v[n]);
        } else {
            for (std::uint32_t i = 0, r = m.rank; i < m.world; ++i, r = r + 1 == m.world ? 0 : r + 1) {
                ptx::store_16(static_cast<uint4*>(m.outs[r]) + begin + p, v[n]);
            }
        }
    }
}

// all-to-all: runs of a row that stay together, one to a warp. Peers take turns, so that none is sent to by
// all at once.
template <Collective What>
PK_DEVICE void move_runs(const Moves& m) {
    constexpr std::uint32_t ahead = 8;
    const std::uint32_t lane = threadIdx.x % 32, world = m.world;
    const PieceShards rows = m.rows;
    const std::uint64_t begin = rows.begin(m.rank), wide = m.row_pieces / world;
    const std::uint64_t runs = (What == Collective::to_columns ? rows.count(m.rank) : rows.each) * world;
    const std::uint64_t warps = std::uint64_t{gridDim.x} * (mover_threads / 32);
    for (std::uint64_t run = (std::uint64_t{blockIdx.x} * mover_threads + threadIdx.x) / 32; run < runs;
         run += warps) {
        const std::uint64_t row = run / world;  // of the shard of this rank, or of the peer
        const std::uint32_t peer = (m.rank + 1 + static_cast<std::uint32_t>(run % world)) % world;
        if (What == Collective::to_rows && row >= rows.count(peer)) continue;
        const uint4* from = static_cast<const uint4*>(m.ins[m.rank]);
        uint4* to = static_cast<uint4*>(m.outs[peer]);
        if constexpr (What == Collective::to_columns) {
            from += row * m.row_pieces + peer * wide;
            to += (begin + row) * wide;
        } else {
            from += (rows.begin(peer) + row) * wide;
            to += row * m.row_pieces + m.rank * wide;
        }
        std::uint64_t at = lane;
        for (; at + (ahead - 1) * 32 < wide; at += ahead * 32) {
            uint4 v[ahead];
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) v[n] = ptx::load_past_l1(from + at + n * 32);
            PK_UNROLL
            for (std::uint32_t n = 0; n < ahead; ++n) ptx::store_16(to + at + n * 32, v[n]);
        }
        for (; at < wide; at += 32) ptx::store_16(to + at, ptx::load_past_l1(from + at));
    }
}

template <Collective What, class Type>
PK_DEVICE void move(const Moves& m) {
    if constexpr (What == Collective::to_columns || What == Collective::to_rows) {
        move_runs<What>(m);
    } else {
        constexpr std::uint32_t count = sums(What) ? 4 : 8;
        const std::uint64_t begin = m.rows.begin(m.rank) * m.row_pieces;
        const std::uint64_t all = m.rows.count(m.rank) * m.row_pieces;
        const std::uint64_t step = std::uint64_t{gridDim.x} * mover_threads;
        std::uint64_t at = std::uint64_t{blockIdx.x} * mover_threads + threadIdx.x;
        for (; at + (count - 1) * step < all; at += count * step)
            move_shard<What, Type, count>(m, begin, at, step);
        for (; at < all; at += step) move_shard<What, Type, 1>(m, begin, at, step);
    }
}

// Between the begin and the end of all ranks.
template <Collective What, class Type>
__global__ void __launch_bounds__(mover_threads, 1) collective(const __grid_constant__ Moves m) {
    together(m, [&] { move<What, Type>(m); });
}

// A place that holds a call's pieces is written again in the call after the next, by a rank that has seen
// this one's flag of the next: which it set when it had read them.
template <class Type>
__global__ void __launch_bounds__(small_pieces, 1) small_all_reduce(const __grid_constant__ SmallSum m) {
    const std::uint32_t block = blockIdx.x, epoch = m.epochs[block] + 1;
    const std::uint64_t at = std::uint64_t{block} * small_pieces + threadIdx.x;
    const auto place = [&](std::uint32_t rank, std::uint32_t source) {
        return reinterpret_cast<uint4*>(m.peers[rank] + m.place(block, epoch, source)) + threadIdx.x;
    };
    Patience patience(m, block);
    if (__syncthreads_or(patience.gone())) return;
    uint4 own = {};
    if (at < m.pieces) {
        own = detail::piece(m.in, at);
        for (std::uint32_t r = 0; r < m.world; ++r) {
            if (r != m.rank) ptx::store_16(place(r, m.rank), own);
        }
    }
    __syncthreads();
    bool there = true;
    if (threadIdx.x < m.world && threadIdx.x != m.rank) {
        const std::uint32_t r = threadIdx.x;
        const auto word = [&](std::uint32_t rank, std::uint64_t at) {
            return reinterpret_cast<std::uint32_t*>(m.peers[rank] + at);
        };
        store_relaxed(word(r, m.block_card(block, epoch, m.rank)), m.card);
        signal(word(r, m.block_flag(block, m.rank)), epoch);
        there = patience.flag(word(m.rank, m.block_flag(block, r)), epoch, Wait::summand, block, r) &&
                patience.agree(m.card, load_relaxed(word(m.rank, m.block_card(block, epoch, r))), r);
    }
    if (!__syncthreads_and(there)) return;
    if (at < m.pieces) {
        detail::SumOfPieces<Type> sum;
        for (std::uint32_t r = 0; r < m.world; ++r)
            sum.add(r == m.rank ? own : ptx::load_past_l1(place(m.rank, r)));
        ptx::store_16(static_cast<uint4*>(m.out) + at, sum.result());
    }
    if (threadIdx.x == 0) m.epochs[block] = epoch;
}

}  // namespace pk::lcsc
