// How the attention of a step is divided over the members of a cluster, and there over warps. The keys of a
// row are cut into at most `members` spans of whole units of 16 tokens; where depends on the row's position
// alone, so a row's result does not depend on the rest of the batch. Which member computes which span is
// decided anew in every step, from the lengths; and so is which warp.
#pragma once

#include <cstdint>

#include "mpk/cluster/shares.hpp"

namespace mpk::cluster {

inline constexpr std::uint32_t unit = 16;  // tokens

struct Spans {
    std::uint32_t units;   // of the row's keys, its own among them
    std::uint32_t length;  // units of a span; the last may have fewer
    std::uint32_t count;

    PK_HOST_DEVICE explicit Spans(std::uint32_t position)
        : units(position / unit + 1),
          length((units + members - 1) / members),
          count((units + length - 1) / length) {}
    // Units of a span, the last one's too.
    PK_HOST_DEVICE Part of(std::uint32_t span) const {
        const std::uint32_t begin = span * length;
        return {begin, begin + length < units ? begin + length : units};
    }
    // Spans have lanes of so many units, one a warp if the warps of a block share a span. A lane is added up
    // unit by unit, a span lane by lane, whoever does it.
    PK_HOST_DEVICE static std::uint32_t lane_of(std::uint32_t units) {
        return (units + consumer_warps - 1) / consumer_warps;
    }
};

// Goes through the rows of a step. The spans of all rows in order are dealt to the members in order; a
// member's spans are neighbours, so at most one of its rows is finished by others.
template <bool ByLength>
class Deal {
public:
    PK_HOST_DEVICE Deal(const std::uint32_t* positions, std::uint32_t rows, std::uint32_t member)
        : member_(member) {
        for (std::uint32_t r = 0; r < rows; ++r) total_ += weight(Spans(positions[r]));
    }

    // The spans of the next row that this member has, and the member that has the row's first one.
    PK_HOST_DEVICE Part next(const Spans& spans, std::uint32_t& owner) {
        const std::uint32_t each = ByLength ? spans.length : 1;
        // Span c begins at before_ + c * each and belongs to member begin * members / total.
        const auto first_of = [&](std::uint32_t member) {
            const std::uint32_t from = member * total_, begun = before_ * members;
            const std::uint32_t c =
                from <= begun ? 0 : (from - begun + each * members - 1) / (each * members);
            return c < spans.count ? c : spans.count;
        };
        owner = before_ * members / total_;
        const Part mine = {first_of(member_), first_of(member_ + 1)};
        before_ += weight(spans);
        return mine;
    }

private:
    PK_HOST_DEVICE static std::uint32_t weight(const Spans& spans) {
        return ByLength ? spans.units : members;
    }

    std::uint32_t member_, total_ = 0, before_ = 0;
};

// What a member has of a row: spans [begin, end) of `count`. The owner, who has the first, finishes the row.
struct RowShare {
    std::uint8_t begin, end, count, owner;
    PK_HOST_DEVICE bool is_empty() const { return begin == end; }
    PK_HOST_DEVICE bool has_last() const { return begin != end && end == count; }
};

// Units that one warp goes through: a span, lane by lane, or one lane of it.
struct alignas(16) Stretch {
    std::uint16_t begin, count;  // units of the row
    std::uint16_t lane;          // of so many units
    std::uint16_t steps;         // of a round's first: units of the round's longest
    std::uint8_t row, span;
    std::uint8_t slot, first_slot;  // where in the group its result goes, and that of the row's first
    std::uint8_t together;          // of a round's first: stretches of the round
    bool whole : 1;                 // a span
    bool last : 1;                  // of its row
    bool opens : 1;                 // the first of a group
    bool folds : 1;                 // there, of some spans of the group the lanes are to be added up
};
inline constexpr std::uint32_t most_units = 65535;  // of a row: what a Stretch can count

// The most stretches that a member can have of so many rows: two spans at most of a row are cut.
PK_HOST_DEVICE constexpr std::uint32_t most_stretches(std::uint32_t rows) {
    return rows == 1 ? consumer_warps : rows * 2 * consumer_warps;
}

// The stretches of a member, in groups of those whose results there is room for at the same time, 16 or
// more (of a batch of one, 8). A warp takes a whole span; but few long ones, that would leave most warps with
// nothing to do, are cut. Returns how many stretches.
PK_HOST_DEVICE std::uint32_t list_stretches(const RowShare* shares, const std::uint32_t* positions,
                                            std::uint32_t rows, std::uint32_t slots, Stretch* stretches) {
    std::uint32_t all = 0;  // units
    for (std::uint32_t row = 0; row < rows; ++row) {
        const Spans spans(positions[row]);
        for (std::uint32_t s = shares[row].begin; s < shares[row].end; ++s) all += spans.of(s).count();
    }
    std::uint32_t count = 0, used = slots, first = 0;  // slots of the group, and its first stretch
    for (std::uint32_t row = 0; row < rows; ++row) {
        const RowShare mine = shares[row];
        if (mine.is_empty()) continue;
        const Spans spans(positions[row]);
        const std::uint32_t of_row = mine.end - mine.begin;
        const bool cut =
            spans.length > 1 && of_row <= slots / consumer_warps && of_row <= 2 && 3 * spans.length > all;
        std::uint32_t needed = 0;
        for (std::uint32_t s = mine.begin; s < mine.end; ++s) {
            const std::uint32_t units = spans.of(s).count(), lane = Spans::lane_of(units);
            needed += cut ? (units + lane - 1) / lane : 1;
        }
        const bool opens = used + needed > slots;
        if (opens) {
            used = 0;
            first = count;
        }
        const std::uint32_t first_slot = used, end = count + needed;
        for (std::uint32_t s = mine.begin; s < mine.end; ++s) {
            const Part span = spans.of(s);
            const std::uint32_t lane = Spans::lane_of(span.count()), step = cut ? lane : span.count();
            for (std::uint32_t begin = span.begin; begin < span.end; begin += step) {
                const std::uint32_t left = span.end - begin;
                stretches[count] = {static_cast<std::uint16_t>(begin),
                                    static_cast<std::uint16_t>(left < step ? left : step),
                                    static_cast<std::uint16_t>(lane),
                                    0,
                                    static_cast<std::uint8_t>(row),
                                    static_cast<std::uint8_t>(s),
                                    static_cast<std::uint8_t>(used++),
                                    static_cast<std::uint8_t>(first_slot),
                                    0,
                                    !cut,
                                    count + 1 == end,
                                    count == first,
                                    false};
                ++count;
            }
        }
        if (cut) stretches[first].folds = true;
    }
    // Rounds: those of a group that the warps go through together, one each.
    for (std::uint32_t begin = 0, end; begin < count; begin = end) {
        std::uint16_t steps = stretches[begin].count;
        for (end = begin + 1; end < count && end < begin + consumer_warps && !stretches[end].opens; ++end) {
            if (stretches[end].count > steps) steps = stretches[end].count;
        }
        stretches[begin].steps = steps;
        stretches[begin].together = static_cast<std::uint8_t>(end - begin);
    }
    return count;
}

}  // namespace mpk::cluster
