// Runs the twin of an all-reduce in the network on host threads.
#pragma once

#include <cstdint>

#include "pk/engine/host_threads.hpp"
#include "pk/engine/network_plan.hpp"
#include "pk/lcsc/host_network.hpp"

namespace pk::engine {

template <class C>
struct NetworkWork {
    using Run = lcsc::NetworkSum;
    struct Scratch {};
    static void run(const Run& run, std::uint32_t sm, std::uint32_t sms, Scratch&) {
        lcsc::host_network_all_reduce<typename C::Type>(run, sm, sms);
    }
};

template <class C>
class HostNetwork : public HostThreads<NetworkWork<C>> {
    using Threads = HostThreads<NetworkWork<C>>;

public:
    HostNetwork(std::int32_t, std::uint32_t sms, const NetworkPlan&) : Threads(sms) {}

    std::uint64_t bytes() const { return sizeof(lcsc::State); }

    void fill(NetworkArguments& a) {
        Threads::fill_call(a);
        Threads::start_threads();
    }

    void run(const RowCopy& in, const lcsc::NetworkSum& sum, const RowCopy& out, void* stream) {
        Threads::enqueue(stream, in, sum, out);
    }
};

}  // namespace pk::engine
