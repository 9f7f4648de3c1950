// GPU threads as fibers: what device code sees of the one that runs, and how it waits.
//
// All fibers run on one thread of the host, one at a time. A fiber goes on until it waits for others; then
// another lane of its warp runs, and when none can, a warp that the scheduler draws.
#pragma once

#include <cstdint>

#include "emulator/vector_types.hpp"

namespace emulator {

inline constexpr std::uint32_t lanes = 32;

struct Block;
struct Warp;

// What a thread waits for.
enum class Wait : std::uint8_t { nothing, warp, block, cluster, mbarrier, poll, over };

struct Thread {
    void* stack_pointer = nullptr;  // while it does not run
    Warp* warp = nullptr;
    Block* block = nullptr;
    uint3 index = {};
    std::uint8_t lane = 0;
    Wait wait = Wait::nothing;
    bool vote = false;            // what the barrier that it waits for says to all
    bool in_time = false;         // whether it was woken by what it waited for
    std::uint32_t about = 0;      // the number of the barrier or the offset of the mbarrier
    std::uint32_t parity = 0;     // of the mbarrier's phase
    std::uint32_t loads = 0;      // polls without a pause
    const void* place = nullptr;  // in the code
};

// The thread that runs.
extern Thread* running;

const uint3& block_index();

// Begins of the shared memory of the running thread's block.
unsigned char* dynamic_memory();
// A variable that the block's threads share; `key` says which.
void* static_memory(const void* key, std::uint32_t bytes);

// --- shared memory by 32-bit addresses: the block's rank in its cluster in the upper 8 bits

std::uint32_t shared_address(const void* p);
std::uint32_t peer_address(std::uint32_t address, std::uint32_t rank);
// Memory of `bytes` there; the run ends if they do not all lie inside.
void* shared_pointer(std::uint32_t address, std::uint32_t bytes);

// --- waits

// A rendezvous of the lanes in `mask`, which give `mine`: the last that comes does act(all of that, by lane;
// the lanes that came). Lanes that are over are not waited for.
using Act = void (*)(void* const* operands, std::uint32_t came);
void together(std::uint32_t mask, Act act, void* mine);

// A barrier of `threads` threads of the block (0: all); true if a vote was.
bool block_barrier(std::uint32_t number, std::uint32_t threads, bool vote);
void cluster_barrier();

// Between two polls of a word: lets others run.
void poll_pause();
// A load by which a thread may wait for another: many in a row are taken for a poll.
void polled_load();
// A step that others may see: now and then another warp runs first.
void visible_step();

// Nanoseconds; passes while threads run, and faster when all wait.
std::uint64_t virtual_time();

// Ends the run: prints `what` and where the thread is, and the launch fails.
[[noreturn]] void fail(const char* what, ...) __attribute__((format(printf, 1, 2)));

}  // namespace emulator
