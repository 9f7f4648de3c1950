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
    bool covered = true, rounds = true;
    for (std::uint32_t position = 0; position <= 5000; ++position) {
        const Spans spans(position);
        const std::uint32_t units = position / 16 + 1;
        covered = covered && spans.count >= 1 && spans.count <= 8 && spans.units == units;
        std::uint32_t next = 0;
        for (std::uint32_t s = 0; s < spans.count; ++s) {
            const Part one = {s * spans.length, std::min((s + 1) * spans.length, units)};
            covered = covered && one.begin == next && one.end > one.begin;
            next = one.end;
        }
        covered = covered && next == units;
        // A round has whole spans, no more units than warps unless it is one span, and never looks past
        // `end`.
        rounds = rounds && spans.round() >= 1 &&
                 (spans.round() == 1 || spans.round() * spans.length <= consumer_warps);
        for (std::uint32_t begin = 0; begin < spans.count; ++begin) {
            for (std::uint32_t end = begin + 1; end <= spans.count; ++end) {
                std::uint32_t reached = begin * spans.length;
                for (std::uint32_t span = begin; span < end; span += spans.round()) {
                    const Part range = spans.of(span, end);
                    rounds = rounds && range.begin == reached && range.end > range.begin;
                    reached = range.end;
                }
                rounds = rounds && reached == std::min(end * spans.length, units);
            }
        }
    }
    suite.check("spans are all units of a row, in order, at most one a member", covered);
    suite.check("rounds go through the spans of a member, and mix only what has a warp each", rounds);
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

// Goes through a member's rounds as the consumers do, and counts the units of every span.
template <std::uint32_t Slots>
void check_rounds(Suite& suite) {
    using mpk::cluster::RowShare;
    std::mt19937 random(11);
    bool once = true, apart = true, alone = true, rotated = true, fits = true;
    for (int trial = 0; trial < 20000; ++trial) {
        const std::uint32_t rows = 1 + random() % 16, longest = trial % 3 == 0   ? 5000
                                                                : trial % 3 == 1 ? 1200
                                                                                 : 100;
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
        mpk::cluster::Round rounds[mpk::cluster::most_rounds(16)];
        const std::uint32_t count =
            mpk::cluster::list_rounds(share.data(), position.data(), rows, Slots, rounds);
        fits = fits && count <= mpk::cluster::most_rounds(rows);
        std::vector<bool> taken;
        std::vector<std::uint32_t> of_group;
        bool split = false;
        for (std::uint32_t i = 0; i < count; ++i) {
            const mpk::cluster::Round& round = rounds[i];
            const Spans spans(position[round.row]);
            const RowShare mine = share[round.row];
            if (round.opens) {
                taken.assign(Slots, false);
                of_group.clear();
                split = false;
            }
            once = once && round.begin == next[round.row] && round.begin == round.span * spans.length;
            once = once && round.end == spans.of(round.span, mine.end).end;
            next[round.row] = round.end;
            for (std::uint32_t l = round.lane; l < round.lane + round.lanes(); ++l) {
                apart = apart && l < taken.size() && !taken[l];
                if (l < taken.size()) taken[l] = true;
            }
            const std::uint32_t of_span = std::min(spans.length, consumer_warps);
            // Where the first span of the round lies, as who finishes the row works it out.
            rotated = rotated &&
                      (round.split || round.lane == round.first_lane + (round.span - mine.begin) * of_span);
            once = once && round.last == (round.end == std::min(mine.end * spans.length, spans.units));
            of_group.push_back(round.row);
            split = split || round.split;
            alone = alone && (!split || of_group.front() == of_group.back());
        }
        for (std::uint32_t r = 0; r < rows; ++r) {
            const Spans spans(position[r]);
            once = once && next[r] == std::min(share[r].end * spans.length, std::max(spans.units, next[r]));
        }
    }
    const std::string slots = std::to_string(Slots) + " lanes";
    suite.check("rounds with " + slots + " take every unit of a member once, in order", once);
    suite.check("rounds with " + slots + " of a group lie apart", apart);
    suite.check("rounds with " + slots + ": no more than there is room for", fits);
    suite.check("rounds with " + slots + ": spans lie where they are looked for", rotated);
    suite.check("rounds with " + slots + ": a row of several groups is alone in them", alone);
}

}  // namespace detail

inline void cluster_keys_cases(Suite& suite) {
    detail::check_spans(suite);
    detail::check_deal<true>(suite, "dealt by length");
    detail::check_deal<false>(suite, "dealt by row");
    detail::check_rounds<8>(suite);
    detail::check_rounds<16>(suite);
    detail::check_rounds<32>(suite);
}

}  // namespace testing
