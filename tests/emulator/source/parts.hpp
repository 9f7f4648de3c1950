// What a launch consists of: clusters of blocks of warps of threads, and what they have asked for that is not
// done yet.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "emulator/thread.hpp"
#include "fiber.hpp"

namespace emulator {

struct Warp {
    // Lanes that have come to a rendezvous.
    struct Meeting {
        std::uint32_t mask = 0, came = 0;
        Act act = nullptr;
    };

    Thread* threads = nullptr;  // [lanes]
    std::uint32_t alive = 0, runnable = 0;
    std::uint32_t first = 0;  // the lane that goes first, when there is a choice
    bool queued = false;
    bool slow = false;
    std::array<Meeting, 4> meetings;
    std::array<void*, lanes> operands;
};

struct Cluster;

struct Block {
    struct Barrier {
        std::uint32_t came = 0, threads = 0;
        bool vote = false;
    };
    // A relaxed store that others do not see yet.
    struct Write {
        std::uint32_t* to;
        std::uint32_t value;
    };
    static constexpr std::size_t most_writes = 24;

    std::uint32_t number = 0;  // in the grid
    uint3 index = {};
    std::uint32_t rank = 0;  // in the cluster
    Cluster* cluster = nullptr;
    unsigned char* memory = nullptr;  // shared
    std::unique_ptr<Stacks> stacks;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::uint32_t alive = 0;  // threads
    std::array<Barrier, 16> barriers;
    std::vector<Thread*> at_mbarriers;
    std::map<const void*, std::vector<unsigned char>> variables;
    std::vector<Write> writes;
};

struct Cluster {
    std::vector<Block*> blocks;
    std::uint32_t alive = 0, came = 0;  // threads; at the cluster's barrier
};

// A copy or a store into the shared memory of a block, which counts its bytes on an mbarrier there.
struct Transfer {
    Block* block;
    std::uint32_t to, barrier, bytes;  // offsets
    const void* from;                  // null: the value
    std::array<unsigned char, 16> value;
};

}  // namespace emulator
