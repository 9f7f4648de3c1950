// all-gather by the copy engine: rows and then their flags are copied to the peers by memory copies on a
// stream of their own. They know nothing of epochs, so they read them from memory, and always write to the
// first of the two buffers; who may begin, a kernel of one warp waits for.
#pragma once

#include "pk/lcsc/arguments.hpp"
#if PK_CUDA
#include "pk/lcsc/patience.hpp"
#endif

namespace pk::lcsc {

// C::copies_from: bytes of the largest shard from which on rows go by copies. They take all of the link
// without any SM, but begin late: so by size they are for large shards.
inline constexpr std::uint64_t copies_always = 0, copies_never = ~std::uint64_t{0};
inline constexpr std::uint64_t copies_least = std::uint64_t{32} << 20;

template <class C>
inline constexpr bool can_copy = C::gather && C::copies_from != copies_never;

template <class C>
bool takes_copies(const Arguments& a) {
    return can_copy<C> && std::uint64_t{a.shards.each} * a.k * 2 >= C::copies_from;
}

// Blocks of rows (of `tile_m` rows) that are copied together, with the flags of these blocks behind them.
inline std::uint32_t copied_blocks(std::uint32_t k, std::uint32_t tile_m) {
    static constexpr std::uint64_t chunk = 4 << 20;  // bytes
    const std::uint64_t blocks = chunk / (std::uint64_t{k} * 2 * tile_m);
    return blocks == 0 ? 1 : static_cast<std::uint32_t>(blocks);
}

#if PK_CUDA

// Before the copies of a call: the peers have ended the call before it, in which they may have read the
// buffer. Then the words that the copies take for flags: this call's epoch.
template <class C>
__global__ void __launch_bounds__(32, 1) begin_copies(const __grid_constant__ Arguments a) {
    const std::uint32_t epoch = load_relaxed(&a.state->epoch) + 1;
    Patience patience(a, 0);
    bool there = true;
    for (std::uint32_t r = threadIdx.x; r < a.world; r += 32) {
        there = there && patience.flag(a.done(a.rank, r), epoch - 1, Wait::peer_done, 0, r);
    }
    there = __all_sync(~0u, there);
    // The copies of a rank that has given up cannot be called back. So that peers that are late do not take
    // their rows for those that they wait for, its flags go back behind this call: the only ones ever to do
    // so.
    const std::uint32_t shown = there ? epoch : epoch - 2, blocks = a.workspace.blocks;
    for (std::uint32_t b = threadIdx.x; b < blocks; b += 32) {
        a.copied_epochs[b] = shown;
        for (std::uint32_t r = 0; r < a.world && !there; ++r)
            if (r != a.rank) signal(a.flags(r, a.workspace.gathered_flags) + a.rank * blocks + b, shown);
    }
}

#endif

}  // namespace pk::lcsc
