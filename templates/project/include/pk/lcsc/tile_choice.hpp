// Which of two tiles a call takes, and how many clusters share what full rounds of tiles leave (deal.hpp).
#pragma once

#include "pk/lcsc/deal.hpp"
#include "pk/lcsc/layout.hpp"
#include "pk/lcsc/schedule.hpp"

namespace pk::lcsc {

// C with tiles of half the width, for calls of few tiles.
template <class C>
struct Half : C {
    static constexpr std::uint32_t tile_n = C::tile_n / 2, stages = C::stages * 3 / 2;
};

// How long tiles take, in ns, fitted to products of 129 rows and more on one H200 (tests/bench/NOTES.md). A
// step takes longer where more of the SMs work, as they share power and L2.
struct TileCost {
    double step, step_of_all;     // of one tile; of one where more than half of the SMs have one, up to all
    double part, helper, uneven;  // for the sums of a part, of each more, and where shares cut tiles unevenly

    constexpr double step_of(std::uint32_t clusters, std::uint32_t all) const {
        const double full = static_cast<double>(clusters) / all;
        return step + (full > 0.5 ? (full - 0.5) * 2 * (step_of_all - step) : 0);
    }
    constexpr double ns(std::uint32_t places, std::uint32_t steps, std::uint32_t clusters,
                        std::uint32_t sharing) const {
        const std::uint32_t rounds = places / clusters, rest = places % clusters;
        const double whole = static_cast<double>(rounds) * steps * step_of(clusters, clusters);
        if (sharing == 0) return whole + (rest == 0 ? 0 : steps * step_of(rest, clusters));
        const double each = static_cast<double>(rest) * steps / sharing;
        return whole + each * step_of(sharing, clusters) + part + (divide_up(sharing, rest) - 2) * helper +
               (sharing % rest == 0 ? 0 : uneven);
    }
};
inline constexpr TileCost full_cost{590, 750, 7500, 1000, 4000}, half_cost{305, 420, 5000, 700, 3000};
constexpr const TileCost& tile_cost(bool half) {
    return half ? half_cost : full_cost;
}
inline constexpr double gains = 0.97;  // of the time, else it is not worth it

// The best number of clusters to share what is left of so many places; 0 if that gains too little.
constexpr std::uint32_t best_sharing(const TileCost& cost, std::uint32_t places, std::uint32_t steps,
                                     std::uint32_t clusters) {
    const std::uint32_t rest = places % clusters;
    if (rest == 0) return 0;
    std::uint32_t best = 0;
    double least = cost.ns(places, steps, clusters, 0) * gains;
    const auto consider = [&](std::uint32_t sharing) {
        const double ns = cost.ns(places, steps, clusters, sharing);
        if (sharing <= rest || sharing > clusters || ns >= least) return;
        best = sharing;
        least = ns;
    };
    for (std::uint32_t sharing = rest * 2; sharing <= clusters; sharing += rest) consider(sharing);
    consider(clusters);
    return best;
}

struct TileChoice {
    bool half;
    std::uint32_t sharing;  // Deal::sharing
};

// Between ranks: tiles of half the width take more of the memory's and the link's time for their work, but
// what peers wait for is sent earlier. Measured on two H200: tests/bench/NOTES.md.
template <class C>
constexpr bool sends_halves(std::uint32_t rounds_of_full) {
    return over_ranks<C> && rounds_of_full <= (C::reduce == Reduce::all ? 2 : 1);
}

// All ranks must choose tiles alike, so `blocks`, of threads that compute, is the same on all.
template <class C>
TileChoice choose_tile(std::uint32_t m, std::uint32_t n, std::uint32_t k, std::uint32_t world,
                       std::uint32_t blocks) {
    const std::uint32_t columns = C::silu_mul ? n * 2 : n, clusters = blocks / members;
    const std::uint32_t steps = divide_up(k, C::tile_k);
    const Shards shards = deal_rows(m, world);
    const auto places = [&](bool half) {
        const TileGrid grid = half ? Layout<Half<C>>::grid() : Layout<C>::grid();
        return TileOrder(shards, world, columns, grid, 0).count();
    };
    const auto ns = [&](const TileChoice& choice) {
        return tile_cost(choice.half).ns(places(choice.half), steps, clusters, choice.sharing);
    };
    TileChoice choice{sends_halves<C>(divide_up(places(false), clusters)), 0};
    double least = ns(choice) * gains;
    for (const bool half : {false, true}) {
        const TileChoice other{
            half, inter_sm<C> ? 0 : best_sharing(tile_cost(half), places(half), steps, clusters)};
        if ((over_ranks<C> && other.sharing == 0) || ns(other) >= least) continue;
        choice = other;
        least = ns(other);
    }
    return choice;
}

}  // namespace pk::lcsc
