// What the scheduler must tell those who wait.
#pragma once

#include <cstdint>

#include "launch.hpp"

namespace emulator {

// Offset 0 of shared memory has this address: below it is what the system keeps for itself.
inline constexpr std::uint32_t shared_base = 1024;

// `bytes` have been written that count on the mbarrier at `offset` of the block's memory.
void count_bytes(Block& block, std::uint32_t offset, std::uint32_t bytes);

// A thread is over: nobody waits for it any more.
void left(const Thread& thread);

}  // namespace emulator
