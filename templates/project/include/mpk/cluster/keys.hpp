// How the attention of a step is divided over the members of a cluster, and there over warps. The keys of a
// row are cut into at most `members` spans of whole units of 16 tokens; where depends on the row's position
// alone, so a row's result does not depend on the rest of the batch. Which member computes which span is
// decided anew in every step, from the lengths.
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
    // Spans that the warps of a block work on at the same time, a warp a unit; one where it is longer.
    PK_HOST_DEVICE std::uint32_t round() const {
        return length < consumer_warps ? consumer_warps / length : 1;
    }
    // Units of the round that begins with `span`, of the spans before `end`.
    PK_HOST_DEVICE Part of(std::uint32_t span, std::uint32_t end) const {
        const std::uint32_t last = span + round() < end ? span + round() : end;
        return {span * length, last * length < units ? last * length : units};
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

// Units [begin, end) of a row that the warps go through together: of one span, or of some that are shorter
// than a unit a warp. What one warp adds up of a round is a lane: unit u is for lane (u - begin) % 8 of its
// lanes.
struct Round {
    std::uint16_t begin, end;
    std::uint8_t row, span;   // its first span
    std::uint8_t lane;        // its first lane
    std::uint8_t first_lane;  // of its row, if the row is not split
    bool opens;               // the first of a group
    bool split;               // the row has several groups
    bool last;                // of its row

    PK_HOST_DEVICE std::uint32_t count() const { return end - begin; }
    PK_HOST_DEVICE std::uint32_t lanes() const { return count() < consumer_warps ? count() : consumer_warps; }
};
inline constexpr std::uint32_t most_units = 65535;  // of a row: what a Round can count

// The most rounds that a member can have of so many rows.
PK_HOST_DEVICE constexpr std::uint32_t most_rounds(std::uint32_t rows) {
    return rows * members;
}

// The rounds of a member, in groups of those whose lanes there is room for at the same time. A row that has
// more lanes than `slots` is alone in its groups. Returns how many rounds.
PK_HOST_DEVICE std::uint32_t list_rounds(const RowShare* shares, const std::uint32_t* positions,
                                         std::uint32_t rows, std::uint32_t slots, Round* rounds) {
    const auto lanes_of = [](std::uint32_t units) { return units < consumer_warps ? units : consumer_warps; };
    std::uint32_t count = 0, used = slots;  // lanes of the group; none fits into the one before the first
    for (std::uint32_t row = 0; row < rows; ++row) {
        const RowShare mine = shares[row];
        if (mine.is_empty()) continue;
        const Spans spans(positions[row]);
        std::uint32_t all = 0;
        for (std::uint32_t span = mine.begin; span < mine.end; span += spans.round()) {
            all += lanes_of(spans.of(span, mine.end).count());
        }
        const bool split = all > slots;
        bool opens = used + all > slots;
        std::uint32_t first_lane = opens ? 0 : used;
        for (std::uint32_t span = mine.begin; span < mine.end; span += spans.round()) {
            const Part range = spans.of(span, mine.end);
            const std::uint32_t lanes = lanes_of(range.count());
            opens = opens || used + lanes > slots;
            if (opens) used = 0;
            rounds[count++] = {static_cast<std::uint16_t>(range.begin),
                               static_cast<std::uint16_t>(range.end),
                               static_cast<std::uint8_t>(row),
                               static_cast<std::uint8_t>(span),
                               static_cast<std::uint8_t>(used),
                               static_cast<std::uint8_t>(first_lane),
                               opens,
                               split,
                               span + spans.round() >= mine.end};
            used += lanes;
            opens = false;
        }
        if (split) used = slots;  // the next row begins a group
    }
    return count;
}

}  // namespace mpk::cluster
