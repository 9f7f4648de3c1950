// How steps are dealt to workers: each step of each tile once, and nobody waits for one that waits.
#include "pk/lcsc/deal.hpp"

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace pk::lcsc;

namespace {

struct Given {
    std::uint32_t places, steps, workers, sharing;
};

void require(bool holds, const char* what, const Given& g) {
    if (holds) return;
    std::printf("FAIL %s: places %u, steps %u, workers %u, sharing %u\n", what, g.places, g.steps, g.workers,
                g.sharing);
    std::exit(1);
}

void check(const Given& g) {
    const Deal deal(g.places, g.steps, g.workers, g.sharing);
    std::vector<std::vector<Part>> parts(g.workers);
    std::vector<int> dealt(std::size_t{g.places} * g.steps);
    std::vector<std::uint32_t> most(g.workers), finished(g.places);
    for (std::uint32_t w = 0; w < g.workers; ++w) {
        deal.each_part(w, [&](const Part& part) {
            require(part.begin < part.end && part.end <= g.steps && part.place < g.places, "a part", g);
            require(part.finishes == (part.end == g.steps), "who has the last steps finishes", g);
            require(part.finishes || parts[w].empty(), "only the first part helps", g);
            for (std::uint32_t s = part.begin; s < part.end; ++s) ++dealt[part.place * g.steps + s];
            finished[part.place] += part.finishes;
            most[w] += part.steps();
            parts[w].push_back(part);
        });
    }
    for (const int times : dealt) require(times == 1, "each step once", g);
    for (const std::uint32_t times : finished) require(times == 1, "each tile is finished once", g);
    // Shares differ by a step.
    for (std::uint32_t w = 1; w < g.sharing; ++w)
        require(most[w] + 1 >= most[w - 1] && most[w] <= most[w - 1] + 1, "even shares", g);

    for (std::uint32_t w = 0; w < g.workers; ++w) {
        for (const Part& part : parts[w]) {
            std::uint32_t next = w, end = part.begin;
            deal.each_helper(w, part, [&](std::uint32_t helper) {
                require(part.finishes && helper < next, "helpers come before, the nearest first", g);
                next = helper;
                require(!parts[helper].empty(), "a helper has something", g);
                const Part& first = parts[helper].front();
                require(first.place == part.place && !first.finishes && first.end == end, "what a helper has",
                        g);
                end = first.begin;
            });
            require(!part.finishes || end == 0, "helpers have the rest", g);
        }
    }
}

}  // namespace

int main() {
    for (const std::uint32_t workers : {1u, 2u, 3u, 7u, 66u}) {
        for (std::uint32_t places = 1; places <= workers * 2 + 3; ++places) {
            for (const std::uint32_t steps : {1u, 2u, 5u, 64u, 161u}) {
                check({places, steps, workers, 0});
                const std::uint32_t rest = places % workers;
                for (std::uint32_t sharing = rest + 1; rest != 0 && sharing <= workers; ++sharing)
                    check({places, steps, workers, sharing});
            }
        }
    }
    std::printf("all passed, 0 failed\n");
}
