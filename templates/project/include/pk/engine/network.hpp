// An all-reduce by itself in the network, as a kernel runs it. The network reaches only memory that is bound
// to a multicast object, which that of callers is not: what it reads and writes is always the workspace, and
// a run copies the matrices of the caller there and back.
#pragma once

#include <cstdint>

#include "pk/bootstrap/multicast_memory.hpp"
#include "pk/engine/card.hpp"
#include "pk/engine/network_plan.hpp"
#include "pk/engine/shared_memory.hpp"
#if PK_CUDA
#include "pk/engine/cuda_network.hpp"
#else
#include "pk/engine/host_network.hpp"
#endif

namespace pk::engine {

#if PK_CUDA
template <class C>
using NetworkDevice = CudaNetwork<C>;
#else
template <class C>
using NetworkDevice = HostNetwork<C>;
#endif

// Given: as for Collective.
template <class Given>
class NetworkAllReduce {
    static_assert(Given::Config::collective == lcsc::Collective::all_reduce);

public:
    using Program = Given;
    using Device = NetworkDevice<typename Program::Config>;
    using Arguments = NetworkArguments;
    using Network = bootstrap::MulticastMemory;

    struct Checked {
        Sizes sizes;
        std::uint64_t in_stride, out_stride;  // elements
    };

    static void check_sizes(std::uint32_t world) {
        if (Program::n.field == nullptr)
            (void)part_of(Program::n, Program::n.first, world, elements_of_16_bytes, "");
    }

    static NetworkPlan plan(std::uint32_t world) {
        return plan_network(world, {Program::m.last, Program::n.last, 0});
    }

    static void fill(Arguments& a, const NetworkPlan& plan) {
        a.plan = plan;
        a.told = plan.told;
    }
    static void fill_network(Arguments& a, const Network& network) {
        a.in = network.mine() + a.plan.in;
        a.out = network.mine() + a.plan.out;
        a.all_in = network.everywhere(a.plan.in);
        a.all_out = network.everywhere(a.plan.out);
    }

    static Checked check(const Call& call, std::uint32_t, std::uint32_t world) {
        const Sizes sizes{part_of(Program::m, call.m, world, 1, "arguments."),
                          part_of(Program::n, call.n, world, elements_of_16_bytes, "arguments."), 0};
        const std::uint64_t in = checked_matrix(call.rows, sizes.m, sizes.n);
        const std::uint64_t out = checked_matrix(call.output, sizes.m, sizes.n);
        check_apart({call.output, sizes.m, sizes.n, out}, {call.rows, sizes.m, sizes.n, in}, in == out);
        return {sizes, in, out};
    }

    static void enqueue(Device& device, const Arguments& common, const SharedMemory&, const Call& call,
                        const Checked& checked, void* stream) {
        const auto& [sizes, in_stride, out_stride] = checked;
        lcsc::NetworkSum sum{};
        static_cast<lcsc::Call&>(sum) = common;
        sum.card = card_of({sizes.m, sizes.n});
        sum.in = common.all_in;
        sum.out = common.all_out;
        sum.pieces = lcsc::deal_pieces(std::uint64_t{sizes.m} * sizes.n / elements_of_16_bytes, common.world);
        const std::uint64_t row = std::uint64_t{sizes.n} * 2;
        device.run({common.in, call.rows.data, row, in_stride * 2, row, sizes.m}, sum,
                   {const_cast<void*>(call.output.data), common.out, out_stride * 2, row, row, sizes.m},
                   stream);
    }
};

}  // namespace pk::engine
