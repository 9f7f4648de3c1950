// wait, signal_all and barrier: flags between ranks. Every rank has a row of flags, one for each rank, which
// is that rank's to write; epochs only grow. Every wait is bounded, and says what it saw.
#pragma once

#include "pk/memory/peer_tensor.hpp"
#include "pk/platform/clock.hpp"
#include "pk/primitives/flags.hpp"

namespace pk {

// What a wait was for, and whether it came.
struct Waited {
    bool reached;
    std::uint32_t rank;            // whose flag
    std::uint32_t expected, seen;  // epochs
};

// wait: until the flag has reached the epoch, or for `timeout_ns`. Acquires what was released with it, at
// system scope, for the calling thread, and for those with which it then synchronizes. Bulk loads of it need
// a ptx::fence_proxy_async after.
PK_DEVICE Waited wait(const std::uint32_t* flag, std::uint32_t epoch, std::uint64_t timeout_ns,
                      std::uint32_t rank) {
    constexpr std::uint32_t look_interval = 256;
    std::uint64_t began = 0;
    for (std::uint32_t polls = 1;; ++polls) {
        const std::uint32_t seen = look(flag);
        if (reached(seen, epoch)) return {true, rank, epoch, seen};
        pause(polls);
        if (polls % look_interval != 0) continue;
        const std::uint64_t now = now_ns();
        if (began == 0) began = now;
        if (now - began >= timeout_ns) return {false, rank, epoch, seen};
    }
}

// signal_all: this rank's flag at every rank, its own too; each store releases as signal does.
PK_DEVICE void signal_all(const memory::PeerTensor<std::uint32_t>& flags, std::uint32_t epoch) {
    for (std::uint32_t n = 0; n < flags.world; ++n) signal(flags.at[flags.after(n)] + flags.rank, epoch);
}

// barrier: one thread of each rank. What a rank did before, and those with which the thread had synchronized,
// comes before all that any rank does after. Ends at the first rank that does not come.
PK_DEVICE Waited barrier(const memory::PeerTensor<std::uint32_t>& flags, std::uint32_t epoch,
                         std::uint64_t timeout_ns) {
    signal_all(flags, epoch);
    Waited last = {true, flags.rank, epoch, epoch};
    for (std::uint32_t r = 0; r < flags.world && last.reached; ++r) {
        last = wait(flags.mine() + r, epoch, timeout_ns, r);
    }
    return last;
}

}  // namespace pk
