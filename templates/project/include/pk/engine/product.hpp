// A matrix product, and what becomes of it, as a kernel runs it.
#pragma once

#include <cstdint>

#include "pk/engine/card.hpp"
#include "pk/engine/shape.hpp"
#include "pk/engine/shared_memory.hpp"
#include "pk/engine/workspace.hpp"
#if PK_CUDA
#include "pk/engine/cuda_product.hpp"
#else
#include "pk/engine/host_product.hpp"
#endif

namespace pk::engine {

#if PK_CUDA
template <class C>
using ProductDevice = CudaProduct<C>;
#else
template <class C>
using ProductDevice = HostProduct<C>;
#endif

// Given: Config; the Dims m, n, k; and what Kernel wants of a Program.
template <class Given>
struct Product {
    using Program = Given;
    using C = typename Program::Config;
    using Device = ProductDevice<C>;
    using Arguments = lcsc::Arguments;

    struct Checked {
        Sizes sizes;
        Strides strides;
    };

    // Those that are compiled in, with so many ranks.
    static void check_sizes(std::uint32_t world) {
        for (const Dim* dim : {&Program::m, &Program::n, &Program::k}) {
            const std::uint32_t multiple = dim == &Program::m ? 1 : elements_of_16_bytes;
            if (dim->field == nullptr) (void)part_of(*dim, dim->first, world, multiple, "");
        }
    }

    static WorkspacePlan plan(std::uint32_t world) {
        return plan_workspace<C>(world, largest_sizes<Program>(world));
    }

    // A kernel without a collective knows no ranks: each is alone.
    static void fill(Arguments& a, const WorkspacePlan& plan) {
        a.told = plan.told;
        a.workspace = plan.places;
        if constexpr (!C::gather && C::reduce == lcsc::Reduce::none) {
            a.peers[0] = a.peers[a.rank];
            a.rank = 0;
            a.world = 1;
        }
    }

    static Checked check(const Call& call, std::uint32_t rank, std::uint32_t world) {
        const Sizes sizes = sizes_of<Program>(call.m, call.n, call.k, world, "arguments.");
        const lcsc::Shards shards = lcsc::deal_rows(sizes.m, world);
        return {sizes, checked_matrices<Program>(call, sizes, shards.count(rank))};
    }

    static void enqueue(Device& device, const Arguments& common, const SharedMemory& shared, const Call& call,
                        const Checked& checked, void* stream) {
        const auto& [sizes, strides] = checked;
        Arguments a = common;
        a.m = sizes.m;
        a.n = sizes.n;
        a.k = sizes.k;
        a.shards = lcsc::deal_rows(sizes.m, a.world);
        a.shard = call.rows.data;
        a.shard_stride = strides.rows;
        a.out_stride = strides.output;
        a.residual_stride = strides.residual;
        a.copied = 0;
        RowCopy out;
        std::uint64_t out_at = not_shared;
        if constexpr (C::reduce == lcsc::Reduce::all) {
            out = place_outputs(a, shared, const_cast<void*>(call.output.data), out_at);
        } else {
            a.outs[a.rank] = const_cast<void*>(call.output.data);
        }
        a.card = card_of({a.m, a.n, a.k, out_at, out_at == not_shared ? 0 : a.out_stride});
        a.bias = call.bias.data;
        a.residual = call.residual.data;
        a.full = const_cast<void*>(call.gathered.data);
        a.full_stride = strides.gathered;
        const OwnOutput own{const_cast<void*>(call.output.data), strides.output};
        device.run(a, {call.weight.data, strides.weight, call.up.data, strides.up}, own, out, stream);
    }

private:
    // Where all ranks write to: the output, where it was shown, else the workspace, from where it is copied.
    static RowCopy place_outputs(Arguments& a, const SharedMemory& shared, void* output, std::uint64_t& at) {
        const std::uint64_t stride = std::uint64_t{a.out_stride} * 2, row_bytes = std::uint64_t{a.n} * 2;
        if (const auto found = shared.find(output, (a.m - 1) * stride + row_bytes, a.world, a.outs)) {
            at = *found;
            return {};
        }
        for (std::uint32_t r = 0; r < a.world; ++r) a.outs[r] = a.peers[r] + a.workspace.sums;
        a.out_stride = a.n;
        return {output, a.outs[a.rank], stride, row_bytes, row_bytes, a.m};
    }
};

}  // namespace pk::engine
