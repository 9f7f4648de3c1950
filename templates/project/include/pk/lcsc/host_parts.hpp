// Tiles that threads share on the host (deal.hpp): the sums of parts, between the thread that helps and the
// one that finishes the tile.
#pragma once

#include <cstdint>
#include <vector>

#include "pk/lcsc/deal.hpp"
#include "pk/lcsc/host_protocol.hpp"
#include "pk/lcsc/layout.hpp"

namespace pk::lcsc {

template <class C>
class HostParts {
public:
    HostParts(const Arguments& arguments, std::uint32_t epoch, Patience& patience)
        : a_(arguments), epoch_(epoch), patience_(patience) {}

    // As many threads share as can, so that tests see it wherever there are fewer tiles than threads.
    static std::uint32_t sharing(std::uint32_t places, std::uint32_t steps, std::uint32_t threads) {
        const std::uint64_t rest = places % threads, all = rest * steps;
        return all <= rest ? 0 : all < threads ? static_cast<std::uint32_t>(all) : threads;
    }

    // By the thread that helps; and by the one that finishes the tile, of one of its helpers.
    void give(std::uint32_t sm, const std::vector<float>& sums, Straggler& straggler) {
        float* to = part_of(sm);
        for (std::uint32_t i = 0; i < size; ++i) to[i] = sums[i];
        straggler.maybe_sleep();
        signal_step<Step::signal_part, Step::release_part>(a_.part_flags + sm, epoch_);
    }
    void add(std::uint32_t helper, std::vector<float>& sums) {
        wait_step<Step::wait_part, Step::acquire_part>(patience_, a_.part_flags + helper, epoch_, Wait::part,
                                                       helper, a_.rank);
        if (patience_.gone()) return;
        const float* from = part_of(helper);
        for (std::uint32_t i = 0; i < size; ++i) sums[i] += from[i];
    }

private:
    static constexpr std::uint32_t size = C::tile_m * C::tile_n;

    float* part_of(std::uint32_t sm) const {
        return reinterpret_cast<float*>(a_.parts) + std::uint64_t{sm} * size;
    }

    const Arguments& a_;
    std::uint32_t epoch_;
    Patience& patience_;
};

}  // namespace pk::lcsc
