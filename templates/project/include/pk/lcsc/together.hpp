// What the blocks of all ranks do together: all ranks begin; then each does its part; then all have ended, so
// that inputs may be written and outputs read.
#pragma once

#include "pk/lcsc/moves.hpp"
#include "pk/lcsc/patience.hpp"
#include "pk/ptx/system_memory.hpp"

namespace pk::lcsc {

inline constexpr std::uint32_t mover_threads = 512;

// body(): the part of a thread.
template <class Body>
PK_DEVICE void together(const Call& m, Body body) {
    const std::uint32_t epoch = load_relaxed(&m.state->epoch) + 1;
    Patience patience(m, blockIdx.x);
    // What was enqueued before this kernel has written the input, and the launch has ordered that before.
    bool there = true;
    if (threadIdx.x < m.world) {
        const std::uint32_t r = threadIdx.x;
        const auto begin = [&] {
            store_relaxed(m.card_at(r, epoch, m.rank), m.card);
            signal(m.begun(r, m.rank), epoch);
        };
        if (blockIdx.x == 0 && !patience.gone()) begin();
        there = patience.flag(m.begun(m.rank, r), epoch, Wait::peer_begun, 0, r);
        const std::uint32_t card = there ? load_relaxed(m.card_at(m.rank, epoch, r)) : m.card;
        // The first block may find this run given up when it comes to begin, and the peer should learn why.
        if (card != m.card) begin();
        there = patience.agree(m.card, card, r) && there;
    }
    if (!__syncthreads_and(there)) return;
    body();
    __syncthreads();
    if (threadIdx.x >= 32) return;
    // The last block of the grid tells the peers that this rank has ended, for all of whose threads the chain
    // of additions speaks, and waits until they have. __syncwarp hands on what one lane has acquired.
    std::uint32_t last = 0;
    if (threadIdx.x == 0) last = ptx::add_acq_rel_system(&m.state->finished, 1) == gridDim.x - 1;
    __syncwarp();
    if (__shfl_sync(~0u, last, 0) == 0) return;
    if (threadIdx.x == 0) m.state->finished = 0;
    if (load_relaxed(&m.state->failed) != 0) return;
    for (std::uint32_t r = threadIdx.x; r < m.world; r += 32) {
        signal(m.done(r, m.rank), epoch);
        patience.flag(m.done(m.rank, r), epoch, Wait::peer_moved, 0, r);
    }
    __syncwarp();
    if (threadIdx.x == 0 && load_relaxed(&m.state->failed) == 0) m.state->epoch = epoch;
}

}  // namespace pk::lcsc
