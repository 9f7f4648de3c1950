// Barriers in shared memory, as PTX defines them, and what completes on them.
#pragma once

#include <cstdint>

namespace emulator {

// The 64 bits of an mbarrier: a phase is complete when no arrivals and no bytes are missing. Bytes may be
// counted before they are expected.
struct MbarrierWord {
    std::uint64_t mark : 8;       // that it was initialized
    std::uint64_t phase : 1;      // parity of the phase that is not complete
    std::uint64_t arrivals : 15;  // of each phase
    std::uint64_t missing : 15;   // arrivals of this one
    std::int64_t bytes : 25;      // expected and not counted yet
};
static_assert(sizeof(MbarrierWord) == 8);

// All by the address in shared memory (thread.hpp).
void mbarrier_init(std::uint32_t address, std::uint32_t arrivals);
void mbarrier_arrive(std::uint32_t address, std::uint32_t expected_bytes);
// Whether the phase of this parity is complete. Waits for that; may say no when no thread can go on.
bool mbarrier_wait(std::uint32_t address, std::uint32_t parity);
// The same without a wait.
bool mbarrier_test(std::uint32_t address, std::uint32_t parity);

// --- what happens some time later, in any order, and counts its bytes on an mbarrier

// Global to shared memory; all multiples of 16.
void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier);
// From the shared memory of the block to that of a block of the cluster, and of a value.
void bulk_copy_to_peer(std::uint32_t to, std::uint32_t from, std::uint32_t bytes, std::uint32_t barrier);
void store_peer(std::uint32_t to, const void* value, std::uint32_t bytes, std::uint32_t barrier);
// A relaxed store to global memory: seen by others later, unless a release of its block comes first.
void store_later(std::uint32_t* to, std::uint32_t value);
// Does what the running thread's block has stored so far.
void release_stores();
// Before a load by the running thread of what it may have stored.
void own_stores_first(const void* p, std::uint32_t bytes);

}  // namespace emulator
