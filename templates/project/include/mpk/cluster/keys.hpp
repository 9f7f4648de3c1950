// How the attention of a step is divided over the members of a cluster. The keys of a row are cut into at
// most `members` spans of whole units of 16 tokens; where depends on the row's position alone, so a row's
// result does not depend on the rest of the batch. Which member computes which span is decided anew in every
// step, from the lengths, by the loader and by the consumers alike.
#pragma once

#include "mpk/cluster/layout.hpp"

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

}  // namespace mpk::cluster
