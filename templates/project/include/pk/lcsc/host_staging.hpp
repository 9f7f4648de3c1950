// inter_sm on the host: the ring of tiles between a thread that computes and the agent that pushes for it.
#pragma once

#include "pk/lcsc/arguments.hpp"
#include "pk/lcsc/host_protocol.hpp"
#include "pk/lcsc/schedule.hpp"

namespace pk::lcsc {

template <class C>
class HostStaging {
    using L = Layout<C>;

public:
    using Partial = typename C::Partial;

    HostStaging(const Arguments& arguments, std::uint32_t epoch, Patience& patience)
        : a_(arguments), epoch_(epoch), patience_(patience) {}

    // Where thread `of` has its nth tile.
    Partial* tile(std::uint32_t of, std::uint32_t nth) const {
        return reinterpret_cast<Partial*>(a_.staging + std::uint64_t{place(of, nth)} * L::staged_bytes);
    }

    // Thread `of`: until what was at the place of its nth tile has been pushed; and the tile to the agent.
    bool wait_free(std::uint32_t of, std::uint32_t nth) {
        for (std::uint32_t pusher = 0; pusher < pushers && nth > L::staging_slots; ++pusher) {
            wait_tally<Step::wait_pushed, Step::acquire_pushed>(patience_, &a_.tallies[of].pushed[pusher],
                                                                tally(epoch_, nth - L::staging_slots),
                                                                Wait::staged_free, place(of, nth), a_.rank);
        }
        return !patience_.gone();
    }
    void hand_on(std::uint32_t of, std::uint32_t nth) {
        signal_tally<Step::signal_staged, Step::release_staged>(&a_.tallies[of].staged, tally(epoch_, nth));
    }

    // The agent: until the nth tile of thread `of` is there; and its place back.
    bool wait_full(std::uint32_t of, std::uint32_t nth) {
        return wait_tally<Step::wait_staged, Step::acquire_staged>(patience_, &a_.tallies[of].staged,
                                                                   tally(epoch_, nth), Wait::staged_full,
                                                                   place(of, nth), a_.rank);
    }
    void give_back(std::uint32_t of, std::uint32_t nth) {
        for (std::uint64_t& pushed : a_.tallies[of].pushed)
            signal_tally<Step::signal_pushed, Step::release_pushed>(&pushed, tally(epoch_, nth));
    }

private:
    static std::uint32_t place(std::uint32_t of, std::uint32_t nth) {
        return of * L::staging_slots + (nth - 1) % L::staging_slots;
    }

    const Arguments& a_;
    std::uint32_t epoch_;
    Patience& patience_;
};

}  // namespace pk::lcsc
