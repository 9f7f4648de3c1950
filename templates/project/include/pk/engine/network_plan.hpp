// Where an all-reduce in the network has its flags, in memory that peers write to, and its copies of the
// callers' matrices, in memory that the network reaches: the same on every rank.
#pragma once

#include <cstdint>

#include "pk/engine/room.hpp"
#include "pk/engine/shape.hpp"
#include "pk/lcsc/network_sum.hpp"

namespace pk::engine {

struct NetworkPlan {
    lcsc::CallFlags told = {};
    std::uint64_t bytes = 0;
    std::uint64_t in = 0, out = 0;
    std::uint64_t network_bytes = 0;
};

// What all runs have in common. in, out: of this rank, by its own address.
struct NetworkArguments : lcsc::Call {
    NetworkPlan plan;
    char *in, *out;
    memory::MulticastTensor<char> all_in, all_out;
};

inline NetworkPlan plan_network(std::uint32_t world, const Sizes& largest) {
    NetworkPlan plan;
    plan.told = take_call_flags(plan.bytes, world);
    const std::uint64_t whole = room_of({largest.m, largest.n, 2});
    plan.in = take_room(plan.network_bytes, whole);
    plan.out = take_room(plan.network_bytes, whole);
    return plan;
}

}  // namespace pk::engine
