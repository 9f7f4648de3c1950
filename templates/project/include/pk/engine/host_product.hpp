// Runs an overlapped product on host threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "pk/engine/host_threads.hpp"
#include "pk/engine/weights.hpp"
#include "pk/engine/workspace.hpp"
#include "pk/lcsc/copies.hpp"
#include "pk/lcsc/host_kernel.hpp"

namespace pk::engine {

template <class C>
struct ProductWork {
    struct Run {
        lcsc::Arguments arguments;
        lcsc::HostWeights weights;
    };
    using Scratch = lcsc::HostScratch<C>;
    static void run(const Run& run, std::uint32_t sm, std::uint32_t sms, Scratch& scratch) {
        lcsc::HostBlock<C>(run.arguments, run.weights, sm, sms, scratch).run();
    }
};

template <class C>
class HostProduct : public HostThreads<ProductWork<C>> {
    using Threads = HostThreads<ProductWork<C>>;

public:
    HostProduct(std::int32_t, std::uint32_t sms, const WorkspacePlan& plan)
        : Threads(sms), counts_(plan.blocks) {}
    // The counts go before the threads that use them.
    ~HostProduct() { Threads::wait(); }

    std::uint64_t bytes() const {
        return (counts_.size() + part_flags_.size()) * sizeof(std::uint32_t) +
               tallies_.size() * sizeof(lcsc::Tallies) + staging_.size() + parts_.size() +
               sizeof(lcsc::State);
    }

    void start(const std::vector<typename Threads::Place>& places, std::uint32_t rank) {
        Threads::start(places, rank, lcsc::least_sms<C>(1));
    }

    void fill(lcsc::Arguments& a) {
        Threads::fill_call(a);
        a.gathered_counts = counts_.data();
        if constexpr (lcsc::inter_sm<C> && C::reduce != lcsc::Reduce::none) {
            using L = lcsc::Layout<C>;
            tallies_.resize(Threads::sms());
            staging_.resize(std::size_t{Threads::sms()} * L::staging_slots * L::staged_bytes);
        }
        a.tallies = tallies_.data();
        if constexpr (!lcsc::inter_sm<C>) {
            part_flags_.resize(Threads::sms());
            parts_.resize(std::size_t{Threads::sms()} * lcsc::Layout<C>::sums_bytes);
        }
        a.part_flags = part_flags_.data();
        a.parts = parts_.data();
        a.staging = staging_.data();
        Threads::start_threads();
    }

    void run(lcsc::Arguments a, const Weights& weights, const OwnOutput&, const RowCopy& out, void* stream) {
        a.copied = lcsc::takes_copies<C>(a) ? 1 : 0;
        Threads::enqueue(stream, {}, {a, {weights.weight, weights.up, weights.stride, weights.up_stride}},
                         out);
    }

private:
    std::vector<std::uint32_t> counts_, part_flags_;
    std::vector<lcsc::Tallies> tallies_;  // inter_sm
    std::vector<char> staging_, parts_;
};

}  // namespace pk::engine
