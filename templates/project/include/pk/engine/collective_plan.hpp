// Where a collective's flags and copies lie in the memory that peers write to, for the largest call: the same
// on every rank.
#pragma once

#include <cstdint>

#include "pk/engine/room.hpp"
#include "pk/engine/shape.hpp"
#include "pk/lcsc/moves.hpp"

namespace pk::engine {

struct CollectivePlan {
    lcsc::CallFlags told = {};
    std::uint64_t small_cards = 0, small_flags = 0, small_places = 0;  // of SmallSum
    // For what is not where the kernel can use it. Each has room for the whole tensor where a rank has all of
    // it, else for the largest part.
    std::uint64_t in = 0, out = 0;
    std::uint64_t bytes = 0;
};

// What all runs have in common.
struct CollectiveArguments : lcsc::Call {
    std::uint32_t* epochs;  // of SmallSum
    CollectivePlan plan;
};

// Bytes of a matrix of which ranks have parts: the most that a rank has.
struct PartBytes {
    std::uint64_t in, out;
};
inline PartBytes part_bytes(lcsc::Collective what, const Sizes& sizes, std::uint32_t world) {
    using lcsc::Collective;
    const bool swaps = what == Collective::to_columns || what == Collective::to_rows;
    const std::uint64_t each = (std::uint64_t{sizes.m} + world - 1) / world;
    const std::uint64_t whole = room_of({sizes.m, sizes.n, 2}),
                        rows = room_of({each, sizes.n, 2, swaps ? world : 1u});
    switch (what) {
        case Collective::gather:
            return {rows, whole};
        case Collective::scatter:
            return {whole, rows};
        case Collective::all_reduce:
            return {whole, whole};
        case Collective::to_columns:
            return {rows, whole};
        default:
            return {whole, rows};
    }
}

inline CollectivePlan plan_collective(lcsc::Collective what, std::uint32_t world, const Sizes& largest) {
    static constexpr std::uint64_t word = sizeof(std::uint32_t);
    CollectivePlan plan;
    const auto take = [&plan](std::uint64_t bytes) { return take_room(plan.bytes, bytes); };
    plan.told = take_call_flags(plan.bytes, world);
    if (what == lcsc::Collective::all_reduce) {
        static constexpr std::uint64_t blocks = lcsc::small_blocks(lcsc::small_most);
        plan.small_cards = take(blocks * 2 * world * word);
        plan.small_flags = take(blocks * world * word);
        plan.small_places = take(blocks * 2 * world * lcsc::small_pieces * 16);
    }
    const PartBytes parts = part_bytes(what, largest, world);
    plan.in = take(parts.in);
    plan.out = take(parts.out);
    return plan;
}

}  // namespace pk::engine
