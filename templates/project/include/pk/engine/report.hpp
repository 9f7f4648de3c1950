// What a wait that ran out tells the caller.
#pragma once

#include <sstream>
#include <string>

#include "pk/engine/versioned.hpp"
#include "pk/lcsc/call.hpp"

namespace pk::engine {

inline std::string waited_for(const lcsc::Report& report) {
    using lcsc::Wait;
    std::ostringstream text;
    const auto say = [&](const auto&... parts) { (text << ... << parts); };
    switch (static_cast<Wait>(report.wait)) {
        case Wait::peer_done:
            say("rank ", report.source, " to finish the run before the last");
            break;
        case Wait::peer_begun:
            say("rank ", report.source, " to begin its run");
            break;
        case Wait::peer_moved:
            say("rank ", report.source, " to end its run");
            break;
        case Wait::gathered:
            say("rows of rank ", report.source, " (block ", report.index, ")");
            break;
        case Wait::partial:
            say("rank ", report.source, " to add to tile ", report.index);
            break;
        case Wait::part:
            say("the part that block ", report.index, " has of a tile");
            break;
        case Wait::summand:
            say("the summand of rank ", report.source, " (block ", report.index, ")");
            break;
        case Wait::peer_end:
            say("rank ", report.source, " to send its last sums (", report.index, ")");
            break;
        case Wait::page_full:
            say("operands in page ", report.index);
            break;
        case Wait::page_empty:
            say("page ", report.index, " to be free");
            break;
        case Wait::staged_full:
            say("a tile to push (place ", report.index, ")");
            break;
        case Wait::staged_free:
            say("a tile to be pushed (place ", report.index, ")");
            break;
        case Wait::moved:
            say("bytes to push (buffer ", report.index, ")");
            break;
        default:
            say("wait ", report.wait, " (", report.index, ")");
    }
    return text.str();
}

// "rank 0, SM 3 waited 300 ms for rows of rank 1 (block 2): expected 5, saw 4".
inline std::string sentence(const lcsc::Report& report, std::uint32_t rank, std::uint64_t timeout_ns) {
    std::ostringstream text;
    if (static_cast<lcsc::Wait>(report.wait) == lcsc::Wait::differs) {
        text << "rank " << rank << " and rank " << report.source
             << " were not called alike: the sizes must be the same, and so must the places of matrices in "
                "shared memory; "
             << "destroy the kernel and create a new one on all ranks";
        return text.str();
    }
    const std::uint64_t waited_ns = timeout_ns * timeouts(static_cast<lcsc::Wait>(report.wait));
    text << "rank " << rank << ", SM " << report.sm << " waited " << waited_ns / 1000000 << " ms for "
         << waited_for(report) << ": expected " << report.expected << ", saw " << report.seen
         << "; destroy the kernel and create a new one on all ranks";
    return text.str();
}

// What became of a run that was reported.
inline Status status_of(const lcsc::Report& report) {
    return static_cast<lcsc::Wait>(report.wait) == lcsc::Wait::differs ? Status::invalid_argument
                                                                       : Status::timeout;
}

}  // namespace pk::engine
