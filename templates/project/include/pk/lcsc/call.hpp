// What every kernel over ranks is told of them, and what it reports.
#pragma once

#include "pk/platform/platform.hpp"

namespace pk::lcsc {

inline constexpr std::uint32_t max_ranks = 16;

// What a wait that ran out was for. In host memory; state: 0 nothing, 1 being written, 2 complete.
struct Report {
    std::uint32_t state, rank, sm, wait, index, source, expected, seen;
};

// What somebody waits for (Report::wait).
enum class Wait : std::uint32_t {
    none,
    peer_done,    // that a peer has finished the call before the last, which frees its buffers
    peer_begun,   // that a peer has begun this call: its input is there, and its output free
    peer_moved,   // that a peer has ended this call
    gathered,     // rows of a peer
    partial,      // a peer's summand of a tile
    part,         // the sums of steps of a tile, by another block
    summand,      // a peer's summand in one shot
    peer_end,     // that a peer's block has pushed all its sums
    page_full,    // shared memory: an operand's page
    page_empty,   // and that it has been read
    staged_full,  // a tile in the block's own buffer, to be pushed
    staged_free,  // and that it has been pushed
    moved,        // shared memory: what a bulk copy brings to be pushed
    differs,      // no wait: a peer was called with something else
};

// For how many timeouts somebody waits. What roles of a rank hand to each other comes late where something of
// a peer does, for which another role may have begun to wait later: the report should name that.
PK_HOST_DEVICE constexpr std::uint32_t timeouts(Wait wait) {
    return wait == Wait::page_full || wait == Wait::page_empty || wait == Wait::staged_full ||
                   wait == Wait::staged_free || wait == Wait::part
               ? 2
               : 1;
}

// This rank's own, in device memory; zero at first.
struct State {
    std::uint32_t epoch;     // calls completed
    std::uint32_t finished;  // blocks that have finished this call
    std::uint32_t failed;    // not 0: a wait ran out
    std::uint32_t copied;    // the last call's epoch, if it gathered by the copy engine; else an older one
};

// Places in a workspace where ranks tell each other of calls as a whole.
struct CallFlags {
    std::uint64_t begun, done;  // u32 [rank]: epochs
    std::uint64_t cards;        // u32 [parity][rank]
};

// What every kernel is told of the ranks.
struct Call {
    std::uint32_t rank, world;
    char* peers[max_ranks];  // workspaces
    State* state;
    Report* report;
    std::uint64_t timeout_ns;
    std::uint32_t card;  // of what the ranks must have in common in a call
    CallFlags told;

    // Flags at a place of a rank's workspace.
    PK_HOST_DEVICE std::uint32_t* flags(std::uint32_t of, std::uint64_t place) const {
        return reinterpret_cast<std::uint32_t*>(peers[of] + place);
    }
    // At rank `of`: where `source` says that it has begun or ended a call, and before the first shows its
    // card.
    PK_HOST_DEVICE std::uint32_t* begun(std::uint32_t of, std::uint32_t source) const {
        return flags(of, told.begun) + source;
    }
    PK_HOST_DEVICE std::uint32_t* done(std::uint32_t of, std::uint32_t source) const {
        return flags(of, told.done) + source;
    }
    PK_HOST_DEVICE std::uint32_t* card_at(std::uint32_t of, std::uint32_t epoch, std::uint32_t source) const {
        return flags(of, told.cards) + (epoch & 1) * world + source;
    }
};

}  // namespace pk::lcsc
