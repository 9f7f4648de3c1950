// Sums of integer weights by digit, and searches in them. All sums are of integers, so that no result depends
// on how many threads took part.
#pragma once

#include "pk/platform/block.hpp"
#include "pk/tile/bf16.hpp"
#include "pk/tile/reduce.hpp"

namespace pk::tile {

inline constexpr std::uint32_t histogram_bins = 256;

struct Histogram {
    std::uint64_t sums[block_warps][histogram_bins];
    std::uint64_t rest;  // results of a search
    std::uint32_t bin;
    WarpValues<std::uint64_t> room;
};

// A bin for items that are left out.
inline constexpr std::uint32_t no_bin = histogram_bins;

// sums[0][b] = the weights of the items of [begin, end) with bin_of(item) == b. All threads call; ends with a
// barrier.
template <class BinOf, class WeightOf>
PK_DEVICE void fill(Histogram& h, std::uint32_t begin, std::uint32_t end, BinOf bin_of, WeightOf weight_of) {
    std::uint64_t* mine = h.sums[warp()];
    for (std::uint32_t b = lane(); b < histogram_bins; b += warp_lanes) mine[b] = 0;
    sync_warp();
    // The lanes of a warp take turns by bin: neighbours are often in the same one.
    for (std::uint32_t base = begin + warp() * warp_lanes; base < end; base += block_threads) {
        const std::uint32_t item = base + lane();
        const std::uint32_t bin = item < end ? bin_of(item) : no_bin;
        const std::uint64_t weight = bin != no_bin ? weight_of(item) : 0;
        std::uint32_t waiting = ballot(bin != no_bin);
        while (waiting != 0) {
            const std::uint32_t turn = broadcast(bin, first_bit(waiting));
            const std::uint64_t sum = warp_sum(bin == turn ? weight : std::uint64_t{0});
            if (lane() == 0) mine[turn] += sum;
            waiting &= ~ballot(bin == turn);
        }
    }
    sync_block();
    for (std::uint32_t b = thread_rank(); b < histogram_bins; b += block_threads) {
        for (std::uint32_t w = 1; w < block_warps; ++w) h.sums[0][b] += h.sums[w][b];
    }
    sync_block();
}

// The first bin, counted from the top (or the bottom), at which the running sum exceeds `target`; `target`
// becomes what is left of it in that bin. If it never does, the last bin counted that holds anything.
PK_DEVICE std::uint32_t find(Histogram& h, bool from_top, std::uint64_t& target) {
    if (thread_rank() == 0) {
        std::uint64_t rest = target, before = 0;
        std::uint32_t found = from_top ? histogram_bins - 1 : 0;
        for (std::uint32_t i = 0; i < histogram_bins; ++i) {
            const std::uint32_t bin = from_top ? histogram_bins - 1 - i : i;
            const std::uint64_t sum = h.sums[0][bin];
            if (sum == 0) continue;
            found = bin;
            rest = target - before;
            if (rest < sum) break;
            before += sum;
        }
        h.bin = found;
        h.rest = rest;
    }
    sync_block();
    const std::uint32_t bin = h.bin;
    target = h.rest;
    sync_block();
    return bin;
}

// Keys that order like the floats they stand for.
PK_DEVICE std::uint32_t ordered_key(float value) {
    const std::uint32_t bits = float_bits(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The largest key T such that the weights of the items with key >= T add up to more than `target`.
template <class KeyOf, class WeightOf>
PK_DEVICE std::uint32_t select_from_top(Histogram& h, std::uint32_t items, std::uint64_t target, KeyOf key_of,
                                        WeightOf weight_of) {
    std::uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
        fill(
            h, 0, items,
            [=](std::uint32_t item) {
                const std::uint32_t key = key_of(item);
                const bool fits = shift == 24 || key >> (shift + 8) == prefix;
                return fits ? (key >> shift) & 255 : no_bin;
            },
            weight_of);
        prefix = prefix << 8 | find(h, true, target);
    }
    return prefix;
}

// The first item, in index order, at which the running sum of the weights exceeds `target`.
template <class WeightOf>
PK_DEVICE std::uint32_t select_in_order(Histogram& h, std::uint32_t items, std::uint64_t target,
                                        WeightOf weight_of) {
    std::uint32_t begin = 0, end = items;
    while (end - begin > 1) {
        const std::uint32_t width = (end - begin + histogram_bins - 1) / histogram_bins;
        fill(h, begin, end, [=](std::uint32_t item) { return (item - begin) / width; }, weight_of);
        begin += find(h, false, target) * width;
        end = begin + width < end ? begin + width : end;
    }
    return begin;
}

}  // namespace pk::tile
