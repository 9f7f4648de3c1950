// What a call of an overlapped kernel is told, and the memory it works in.
#pragma once

#include "pk/lcsc/tiles.hpp"

namespace pk::lcsc {

inline constexpr std::uint32_t max_ranks = 16;
inline constexpr std::uint32_t pushers = 3;  // communicator warps of a block

// What a wait that ran out was for. In host memory; state: 0 nothing, 1 being written, 2 complete.
struct Report {
    std::uint32_t state, rank, sm, wait, index, source, expected, seen;
};

// What somebody waits for (Report::wait).
enum class Wait : std::uint32_t {
    none,
    peer_done,    // that a peer has finished the call before the last, which frees its buffers
    peer_begun,   // that a peer has begun this call, which frees its output
    gathered,     // rows of a peer
    partial,      // a peer's summand of a tile
    peer_end,     // that a peer's block has pushed all its sums
    page_full,    // shared memory: an operand's page
    page_empty,   // and that it has been read
    staged_full,  // a tile in the block's own buffer, to be pushed
    staged_free,  // and that it has been pushed
};

// This rank's own, in device memory; zero at first.
struct State {
    std::uint32_t epoch;     // calls completed
    std::uint32_t finished;  // blocks that have finished this call
    std::uint32_t failed;    // not 0: a wait ran out
};

// Places in the workspace, which has the same layout on every rank; bytes. What is there twice is used in
// turns, by the parity of the epoch.
struct Workspace {
    std::uint64_t done;            // u32 [rank]: epochs
    std::uint64_t gathered_flags;  // u32 [rank][block of rows]
    std::uint64_t partial_flags;   // u32 [slot][rank][pusher]
    std::uint64_t ends;            // u32 [rank][block of threads][pusher]
    std::uint64_t gathered[2];     // [rows][k]
    std::uint64_t partials[2];     // [slot][rank other than this one][bytes of a tile]
    std::uint64_t sums;            // all-reduce: [m][n], for outputs that peers cannot write to
    std::uint32_t blocks;          // of a shard, at most
};

// What every kernel is told of the ranks.
struct Call {
    std::uint32_t rank, world;
    char* peers[max_ranks];  // workspaces
    State* state;
    Report* report;
    std::uint64_t timeout_ns;
};

struct Arguments : Call {
    std::uint32_t m, n, k;                   // of the product of this rank, all shards together
    Shards shards;                           // of its rows
    std::uint32_t out_stride, shard_stride;  // elements
    void* outs[max_ranks];                   // this rank's output; of an all-reduce everybody's
    const void* shard;                       // all-gather: this rank's rows
    const void* bias;                        // [n]
    const void* residual;                    // like the output, same stride
    char* staging;                           // of this rank: [block][ring][tile]
    std::uint32_t* gathered_counts;          // of this rank: u32 [block of rows], zero between calls
    std::uint32_t pace;                      // cycles from one batch of a pusher to the next, at least
    Workspace workspace;
};

}  // namespace pk::lcsc
