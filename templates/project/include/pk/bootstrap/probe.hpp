// Whether what a rank writes into a peer's memory arrives there, and can be read back from here: a mapping
// that was made without an error is not always one that works.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "pk/bootstrap/peer_memory.hpp"
#if PK_CUDA
#include "pk/bootstrap/cuda/probe_access.hpp"
#else
#include "pk/platform/atomic.hpp"
#endif

namespace pk::bootstrap {

#if !PK_CUDA
namespace host {

// Writes and reads words of the memory as a kernel would.
class ProbeAccess {
public:
    ProbeAccess(int, int, std::size_t, unsigned) {}
    void store(char* to, const std::uint64_t* words, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            store_relaxed(reinterpret_cast<std::uint64_t*>(to) + i, words[i]);
    }
    void load(const char* from, std::uint64_t* words, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            words[i] = load_relaxed(reinterpret_cast<const std::uint64_t*>(from) + i);
        }
    }
};

}  // namespace host
#endif

// What rank `from` writes for rank `to`; differs for every pair, and is not what cleared or stale memory
// holds.
inline std::uint64_t probe_pattern(int from, int to) {
    std::uint64_t x = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 31);
}

// Collective. Every rank owns one word, by its number, at the begin of every rank's memory, which holds at
// least 8 bytes for each rank and is left as it was. Nobody else uses these bytes meanwhile. `timeout_ms`
// bounds the wait for this rank's own device; the wait for other ranks is bounded by the exchange.
inline void probe(Exchange& exchange, const PeerMemory& memory, unsigned timeout_ms) {
#if PK_CUDA
    using Access = cuda::ProbeAccess;
#else
    using Access = host::ProbeAccess;
#endif
    const int rank = exchange.rank();
    const int world = exchange.world();
    const auto words = static_cast<std::size_t>(world);
    if (memory.bytes() < words * sizeof(std::uint64_t)) {
        fail(Status::invalid_argument, "rank ", rank, " cannot probe ", memory.bytes(),
             " bytes of peer memory, expected at least ", words * sizeof(std::uint64_t));
    }
    std::vector<std::uint64_t> before(words);
    std::vector<std::uint64_t> now(words);
    const std::size_t own = static_cast<std::size_t>(rank) * sizeof(std::uint64_t);
    std::optional<Access> access;
    together(exchange, [&] {
        access.emplace(memory.device(), rank, words, timeout_ms);
        access->load(memory.mine(), before.data(), words);
    });
    together(exchange, [&] {
        for (int to = 0; to < world; ++to) {
            const std::uint64_t pattern = probe_pattern(rank, to);
            access->store(memory.at(to) + own, &pattern, 1);
        }
    });
    together(exchange, [&] {
        access->load(memory.mine(), now.data(), words);
        for (int from = 0; from < world; ++from) {
            const std::uint64_t seen = now[static_cast<std::size_t>(from)];
            if (seen == probe_pattern(from, rank)) continue;
            fail(Status::cuda_error, "what rank ", from, " wrote into the memory of rank ", rank,
                 " did not arrive: ", std::hex, seen, " is there, expected ", probe_pattern(from, rank));
        }
        for (int to = 0; to < world; ++to) {
            std::uint64_t seen = 0;
            access->load(memory.at(to) + own, &seen, 1);
            if (seen == probe_pattern(rank, to)) continue;
            fail(Status::cuda_error, "rank ", rank, " reads ", std::hex, seen, " from the memory of rank ",
                 std::dec, to, " where it had written ", std::hex, probe_pattern(rank, to));
        }
    });
    together(exchange, [&] { access->store(memory.mine(), before.data(), words); });
}

}  // namespace pk::bootstrap
