// Runs a collective by itself on host threads.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "pk/engine/collective_plan.hpp"
#include "pk/engine/host_threads.hpp"
#include "pk/lcsc/host_collective.hpp"

namespace pk::engine {

template <class C>
struct CollectiveWork {
    using Run = std::variant<lcsc::Moves, lcsc::SmallSum>;
    struct Scratch {};
    static void run(const Run& run, std::uint32_t sm, std::uint32_t sms, Scratch&) {
        if (const auto* moves = std::get_if<lcsc::Moves>(&run)) {
            lcsc::HostMover<C::collective, typename C::Type>(*moves, sm, sms).run();
        } else if (const auto& sum = std::get<lcsc::SmallSum>(run); sm < lcsc::small_blocks(sum.pieces)) {
            lcsc::HostSmallSum<typename C::Type>(sum, sm).run();
        }
    }
};

template <class C>
class HostCollective : public HostThreads<CollectiveWork<C>> {
    using Threads = HostThreads<CollectiveWork<C>>;

public:
    HostCollective(std::int32_t, std::uint32_t sms, const CollectivePlan&) : Threads(sms) {}
    // The epochs go before the threads that use them.
    ~HostCollective() { Threads::wait(); }

    std::uint64_t bytes() const { return epochs_.size() * sizeof(std::uint32_t) + sizeof(lcsc::State); }

    void fill(CollectiveArguments& a) {
        Threads::fill_call(a);
        epochs_.resize(Threads::sms());
        a.epochs = epochs_.data();
        Threads::start_threads();
    }

    void run(const RowCopy& in, const lcsc::Moves& moves, const RowCopy& out, void* stream) {
        Threads::enqueue(stream, in, moves, out);
    }
    void run(const RowCopy& in, const lcsc::SmallSum& sum, const RowCopy& out, void* stream) {
        Threads::enqueue(stream, in, sum, out);
    }

private:
    std::vector<std::uint32_t> epochs_;
};

}  // namespace pk::engine
