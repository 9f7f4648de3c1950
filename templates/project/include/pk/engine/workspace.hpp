// Where things lie in the memory that peers write to, for the largest call: the same on every rank.
#pragma once

#include <cstdint>

#include "pk/engine/room.hpp"
#include "pk/engine/shape.hpp"
#include "pk/lcsc/narrow_plan.hpp"
#include "pk/lcsc/schedule.hpp"
#include "pk/lcsc/tile_choice.hpp"

namespace pk::engine {

struct WorkspacePlan {
    lcsc::CallFlags told = {};
    lcsc::Workspace places = {};
    std::uint64_t bytes = 0;
    std::uint32_t blocks = 0;  // of the rows of a shard
};

// 64-bit sums throughout: two buffers of some gigabytes are not unusual.
template <class C>
WorkspacePlan plan_workspace(std::uint32_t world, const Sizes& largest) {
    WorkspacePlan plan;
    const auto take = [&plan](std::uint64_t bytes) { return take_room(plan.bytes, bytes); };
    static constexpr std::uint64_t word = sizeof(std::uint32_t);
    const lcsc::Shards shards = lcsc::deal_rows(largest.m, world);
    // Whole clusters: the last may have a tile without rows.
    static constexpr std::uint32_t members = lcsc::members;
    plan.blocks = lcsc::divide_up(lcsc::divide_up(shards.each, C::tile_m), members) * members;
    // Tiles of half the width are more, and need no more room than half each.
    const std::uint64_t across = lcsc::divide_up(lcsc::weight_columns<C>(largest.n), C::tile_n) * 2;
    const std::uint64_t slots = C::reduce == lcsc::Reduce::none ? 0 : plan.blocks * across;
    static constexpr std::uint64_t slot_bytes = lcsc::Layout<lcsc::Half<C>>::staged_bytes;
    static_assert(slot_bytes * 2 == lcsc::Layout<C>::staged_bytes);

    lcsc::Workspace& w = plan.places;
    w.blocks = plan.blocks;
    plan.told = take_call_flags(plan.bytes, world);
    w.gathered_flags = take(C::gather ? word * world * plan.blocks : 0);
    w.partial_flags = take(room_of({slots, world, lcsc::pushers, word}));
    w.ends =
        take(C::reduce == lcsc::Reduce::all ? room_of({world, lcsc::agents<C>(most_sms), lcsc::pushers, word})
                                            : 0);
    for (int turn = 0; turn < 2; ++turn) {
        w.gathered[turn] = take(C::gather ? room_of({largest.m, largest.k, 2}) : 0);
        w.partials[turn] = take(room_of({slots, world - 1, slot_bytes}));
    }
    if constexpr (PK_CUDA && C::reduce != lcsc::Reduce::none) {
        const std::uint32_t few =
            lcsc::narrow::most_m(world, true) < largest.m ? lcsc::narrow::most_m(world, true) : largest.m;
        w.narrow_slots = lcsc::narrow::most_slots(largest.n);
        w.narrow_slot_bytes = lcsc::narrow::most_slot_bytes(few, sizeof(typename C::Partial));
        w.narrow_cards = take(std::uint64_t{w.narrow_slots} * 2 * world * word);
        w.narrow_flags = take(std::uint64_t{w.narrow_slots} * world * word);
        w.narrow_places = take(room_of({2, w.narrow_slot_bytes, w.narrow_slots, world}));
    }
    w.sums = take(C::reduce == lcsc::Reduce::all ? room_of({largest.m, largest.n, 2}) : 0);
    return plan;
}

}  // namespace pk::engine
