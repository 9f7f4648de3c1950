// How the attention of a step is dealt to the members of a cluster.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "mpk/cluster/keys.hpp"
#include "support/suite.hpp"

namespace testing {

namespace detail {

using mpk::cluster::consumer_warps;
using mpk::cluster::Deal;
using mpk::cluster::Part;
using mpk::cluster::Spans;

inline void check_spans(Suite& suite) {
    bool covered = true, lanes = true;
    for (std::uint32_t position = 0; position <= 5000; ++position) {
        const Spans spans(position);
        const std::uint32_t units = position / 16 + 1;
        covered = covered && spans.count >= 1 && spans.count <= 8 && spans.units == units;
        std::uint32_t next = 0;
        for (std::uint32_t s = 0; s < spans.count; ++s) {
            const Part one = spans.of(s);
            covered = covered && one.begin == next && one.end > one.begin && one.count() <= spans.length;
            next = one.end;
            const std::uint32_t lane = Spans::lane_of(one.count());
            lanes = lanes && lane >= 1 && lane * 8 >= one.count() && (lane - 1) * 8 < one.count();
        }
        covered = covered && next == units;
    }
    suite.check("spans are all units of a row, in order, at most one a member", covered);
    suite.check("a span's lanes are one a warp, of as few units as that takes", lanes);
}

template <bool ByLength>
void check_deal(Suite& suite, const std::string& name) {
    std::mt19937 random(7);
    bool once = true, neighbours = true, owners = true, split = true, even = true;
    for (int trial = 0; trial < 20000; ++trial) {
        const std::uint32_t rows = 1 + random() % 16, longest = trial % 2 ? 5000 : 200;
        std::vector<std::uint32_t> position(rows), first(rows, 0);
        std::uint32_t units = 0, count = 0;  // units and spans of all rows; `first`: spans before a row's
        for (std::uint32_t r = 0; r < rows; ++r) {
            position[r] = random() % (longest + 1);
            first[r] = count;
            count += Spans(position[r]).count;
            units += Spans(position[r]).units;
        }
        std::vector<int> dealt(count, 0);
        std::vector<std::uint32_t> by(count, 0);
        for (std::uint32_t member = 0; member < 8; ++member) {
            Deal<ByLength> deal(position.data(), rows, member);
            std::uint32_t unfinished = 0, had = 0;
            for (std::uint32_t r = 0; r < rows; ++r) {
                const Spans spans(position[r]);
                std::uint32_t owner = 99;
                const Part mine = deal.next(spans, owner);
                once = once && mine.begin <= mine.end && mine.end <= spans.count;
                for (std::uint32_t s = mine.begin; s < mine.end && s < spans.count; ++s) {
                    ++dealt[first[r] + s];
                    by[first[r] + s] = member;
                }
                had += std::min(mine.end * spans.length, spans.units) -
                       std::min(mine.begin * spans.length, spans.units);
                const bool begins = mine.begin == 0 && mine.end > 0;
                owners = owners && begins == (owner == member);
                unfinished += begins && mine.end < spans.count;
            }
            split = split && unfinished <= 1;
            // No more than its part and a span of the longest row.
            const std::uint32_t most = *std::max_element(position.begin(), position.end());
            even = even && (!ByLength || had <= units / 8 + 1 + Spans(most).length);
        }
        once = once && std::all_of(dealt.begin(), dealt.end(), [](int n) { return n == 1; });
        neighbours = neighbours && std::is_sorted(by.begin(), by.end());
    }
    suite.check(name + ": every span has one member", once);
    suite.check(name + ": a member's spans are neighbours", neighbours);
    suite.check(name + ": the owner has the first span", owners);
    suite.check(name + ": others finish at most one of a member's rows", split);
    if (ByLength) suite.check(name + ": members have equal parts but for a span", even);
}

// Goes through a member's stretches as the consumers do.
template <std::uint32_t Slots>
void check_stretches(Suite& suite) {
    using mpk::cluster::RowShare;
    using mpk::cluster::Stretch;
    std::mt19937 random(11);
    bool once = true, apart = true, lanes = true, found = true, fits = true, folds = true, even = true;
    int cut = 0, grouped = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        const std::uint32_t rows = Slots == 8 ? 1 : 1 + random() % 16;
        const std::uint32_t longest = trial % 3 == 0 ? 5000 : trial % 3 == 1 ? 1200 : 100;
        std::vector<std::uint32_t> position(rows);
        for (std::uint32_t& p : position) p = random() % (longest + 1);
        const std::uint32_t member = random() % 8;
        std::vector<RowShare> share(rows);
        Deal<true> deal(position.data(), rows, member);
        for (std::uint32_t r = 0; r < rows; ++r) {
            const Spans spans(position[r]);
            std::uint32_t owner;
            const Part mine = deal.next(spans, owner);
            share[r] = {std::uint8_t(mine.begin), std::uint8_t(mine.end), std::uint8_t(spans.count),
                        std::uint8_t(owner)};
        }
        std::vector<std::uint32_t> next(rows);  // unit that comes next
        for (std::uint32_t r = 0; r < rows; ++r) next[r] = share[r].begin * Spans(position[r]).length;
        Stretch list[mpk::cluster::most_stretches(16)];
        const std::uint32_t count =
            mpk::cluster::list_stretches(share.data(), position.data(), rows, Slots, list);
        fits = fits && count <= mpk::cluster::most_stretches(rows);
        std::vector<bool> taken;
        bool some_cut = false;
        std::uint32_t group = 0, units = 0, steps = 0;
        for (std::uint32_t i = 0; i < count; ++i) {
            const Stretch& one = list[i];
            const Spans spans(position[one.row]);
            const Part span = spans.of(one.span);
            const RowShare mine = share[one.row];
            if (one.opens) {
                taken.assign(Slots, false);
                group = i;
                ++grouped;
            }
            // In order, and no further than its span, which it is if it is whole.
            once = once && one.begin == next[one.row] && one.count >= 1;
            once = once && one.begin >= span.begin && one.begin + one.count <= span.end;
            once = once && (!one.whole || one.count == span.count());
            next[one.row] = one.begin + one.count;
            // What has several lanes or is a part of several is told how many units they have.
            lanes = lanes && one.lane == Spans::lane_of(span.count());
            lanes = lanes &&
                    (one.whole || ((one.begin - span.begin) % one.lane == 0 &&
                                   one.count == std::min<std::uint32_t>(one.lane, span.end - one.begin)));
            apart = apart && one.slot < taken.size() && !taken[one.slot];
            if (one.slot < taken.size()) taken[one.slot] = true;
            // Where a span begins, as who finishes the row works it out.
            const std::uint32_t lane = Spans::lane_of(spans.length);
            const std::uint32_t slots = one.whole ? 1 : (spans.length + lane - 1) / lane;
            found = found && one.slot == one.first_slot + (one.span - mine.begin) * slots +
                                             (one.begin - span.begin) / (one.whole ? span.count() : one.lane);
            once = once && one.last == (next[one.row] == std::min(mine.end * spans.length, spans.units));
            folds = folds && (one.whole || list[group].folds);
            some_cut = some_cut || !one.whole;
            cut += !one.whole;
            units += one.count;
        }
        for (std::uint32_t r = 0; r < rows; ++r) {
            const Spans spans(position[r]);
            once = once && next[r] == std::min(share[r].end * spans.length, std::max(spans.units, next[r]));
        }
        for (std::uint32_t first = 0, end; first < count; first = end) {
            end = first + list[first].together;
            fits = fits && end > first && end - first <= consumer_warps;
            for (std::uint32_t i = first + 1; i < end; ++i) fits = fits && !list[i].opens;
            fits = fits && (end == count || list[end].opens || end - first == consumer_warps);
            std::uint32_t longest = 0;
            for (std::uint32_t i = first; i < end; ++i)
                longest = std::max<std::uint32_t>(longest, list[i].count);
            fits = fits && end <= count && list[first].steps == longest;
            steps += longest;
        }
        // What a member has of a row alone is cut into a lane a warp, or has a unit a warp.
        if (rows == 1) even = even && steps <= (some_cut ? (units + 7) / 8 : 1);
    }
    const std::string slots = std::to_string(Slots) + " slots";
    suite.check("stretches with " + slots + " take every unit of a member once, in order", once);
    suite.check("stretches with " + slots + " of a group lie apart", apart);
    suite.check("stretches with " + slots + " end where lanes do", lanes);
    suite.check("stretches with " + slots + ": no more than there is room for", fits);
    suite.check("stretches with " + slots + ": spans lie where they are looked for", found);
    suite.check("stretches with " + slots + ": a group says that lanes are to be folded", folds);
    suite.check("stretches with " + slots + ": some are cut", cut > 100 && grouped > 100);
    suite.check("stretches with " + slots + ": all warps work on a row alone", even);
}

}  // namespace detail

inline void cluster_keys_cases(Suite& suite) {
    detail::check_spans(suite);
    detail::check_deal<true>(suite, "dealt by length");
    detail::check_deal<false>(suite, "dealt by row");
    detail::check_stretches<8>(suite);
    detail::check_stretches<16>(suite);
    detail::check_stretches<32>(suite);
}

}  // namespace testing
