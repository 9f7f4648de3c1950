// What a call of an overlapped product is told, and the memory it works in.
#pragma once

#include "pk/lcsc/call.hpp"
#include "pk/lcsc/tiles.hpp"

namespace pk::lcsc {

inline constexpr std::uint32_t pushers = 3;  // communicator warps of a block

// Places in the workspace, which has the same layout on every rank; bytes. What is there twice is used in
// turns, by the parity of the epoch.
struct Workspace {
    std::uint64_t gathered_flags;  // u32 [rank][block of rows]
    std::uint64_t partial_flags;   // u32 [slot][rank][pusher]
    std::uint64_t ends;            // u32 [rank][agent][pusher]
    std::uint64_t gathered[2];     // [rows][k]
    std::uint64_t partials[2];     // [slot][rank other than this one][bytes of a tile]
    std::uint64_t sums;            // all-reduce: [m][n], for outputs that peers cannot write to
    std::uint32_t blocks;          // of a shard, at most
    // Products of few rows (narrow_plan.hpp).
    std::uint64_t narrow_cards, narrow_flags, narrow_places, narrow_slot_bytes;
    std::uint32_t narrow_slots;
};

// inter_sm: how many of a block's tiles have got how far (tally.hpp). Each count has one writer.
struct Tallies {
    std::uint64_t staged;           // by the block's consumers
    std::uint64_t pushed[pushers];  // by those of the agent that serves it
};

struct Arguments : Call {
    std::uint32_t m, n, k;  // of the product of this rank, all shards together
    Shards shards;          // of its rows
    std::uint32_t out_stride, shard_stride, residual_stride;  // elements
    void* outs[max_ranks];  // this rank's output; of an all-reduce everybody's
    const void* shard;      // all-gather: this rank's rows
    void* full;             // all-gather: where all rows go besides, if they are kept
    std::uint32_t full_stride;
    const void* bias;                // [n]; this and the residual are added to the sum, once
    const void* residual;            // rows of this rank's output; may be where that is
    char* staging;                   // of this rank: [block][ring][tile]
    std::uint32_t* gathered_counts;  // of this rank: u32 [block of rows], zero between calls
    std::uint32_t copied;            // 1: rows are gathered by the copy engine (copies.hpp)
    std::uint32_t* copied_epochs;    // of this rank: u32 [block of rows], what it takes for flags
    std::uint32_t pace;              // cycles from one batch of a pusher to the next, at least
    Workspace workspace;
    Tallies* tallies;  // inter_sm: of this rank: [computing block]
    // Clusters that share what full rounds of tiles leave (deal.hpp), or 0; and of this rank, by blocks: the
    // sums of the part in which a block helps another, f32 [block][tile], and the epoch when they are there.
    std::uint32_t sharing;
    char* parts;
    std::uint32_t* part_flags;
};

}  // namespace pk::lcsc
