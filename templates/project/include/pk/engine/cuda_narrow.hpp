// A product of few rows on a GPU: how its kernels are launched.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "pk/engine/cuda_device.hpp"
#include "pk/engine/launch.hpp"
#include "pk/engine/tensor_maps.hpp"
#include "pk/engine/weights.hpp"
#include "pk/lcsc/config.hpp"
#include "pk/lcsc/narrow.hpp"

namespace pk::engine {

template <class C>
class CudaNarrow {
public:
    // Of a device with `all` SMs, of which the rank has `part`. Blocks of all ranks wait for each other, so
    // each rank gets its part of the clusters that fit.
    static lcsc::narrow::Clusters clusters(std::uint32_t part, std::uint32_t all) {
        lcsc::narrow::Clusters found;
        for (const std::uint32_t m : {8u, 16u, 32u, 64u, 128u}) {
            cuda::check(cudaFuncSetAttribute(kernel(m), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             lcsc::narrow::shared_bytes),
                        "reserve shared memory");
        }
        const auto fit = [&](std::uint32_t splits) {
            const std::uint64_t resident = resident_clusters(splits);
            return static_cast<std::uint32_t>(
                std::min<std::uint64_t>(resident * part / all, lcsc::narrow::most_blocks / splits));
        };
        found.ones = fit(1);
        found.twos = fit(2);
        found.fours = fit(4);
        return found;
    }

    // All ranks say the same of a call.
    static bool takes(const lcsc::Arguments& a, const lcsc::narrow::Clusters& clusters) {
        if (C::keep_rows || std::uint64_t{a.m} * a.k >= std::uint64_t{1} << 32) return false;
        return a.m <= lcsc::narrow::most_m(a.world, C::reduce != lcsc::Reduce::none) &&
               plan(a, clusters).clusters != 0;
    }

    static void launch(const lcsc::Arguments& a, void* out, std::uint32_t out_stride, const Weights& weights,
                       const lcsc::narrow::Clusters& clusters, std::uint32_t* epochs,
                       TensorMaps<typename C::Type>& maps, bool early, cudaStream_t stream) {
        namespace narrow = lcsc::narrow;
        const std::uint32_t padded = narrow::padded(a.m);
        narrow::Given given{};
        static_cast<lcsc::Arguments&>(given) = a;
        given.plan = plan(a, clusters);
        for (int turn = 0; turn < 2; ++turn) {
            const bool gathers = C::gather && a.world > 1;
            given.rows[turn] = gathers
                                   ? maps.of(a.peers[a.rank] + a.workspace.gathered[turn], a.m, a.k, a.k, a.m)
                                   : maps.of(a.shard, a.m, a.k, a.shard_stride, a.m);
        }
        const std::uint32_t rows = given.plan.rows / (C::silu_mul ? 2 : 1);
        given.weight = maps.of(weights.weight, a.n, a.k, weights.stride, rows);
        given.up = C::silu_mul ? maps.of(weights.up, a.n, a.k, weights.up_stride, rows) : given.weight;
        given.out = out;
        given.out_stride = out_stride;
        given.epochs = epochs;
        given.pace = 0;
        Launch(given.plan.splits * given.plan.clusters, narrow::block_size, narrow::shared_bytes, stream)
            .clusters_of(given.plan.splits)
            .early(early)(kernel(padded), given);
    }

private:
    static lcsc::narrow::Plan plan(const lcsc::Arguments& a, const lcsc::narrow::Clusters& clusters) {
        const bool exchanges = C::reduce != lcsc::Reduce::none && a.world > 1;
        const std::uint64_t room = a.workspace.narrow_slot_bytes / (8 * sizeof(typename C::Partial));
        return lcsc::narrow::best_plan(a.m, lcsc::weight_columns<C>(a.n), a.k, clusters,
                                       exchanges ? room : ~std::uint64_t{0});
    }

    using Kernel = void (*)(lcsc::narrow::Given);

    static Kernel kernel(std::uint32_t padded) {
        switch (padded) {
            case 8:
                return lcsc::narrow::narrow_product<C, 8>;
            case 16:
                return lcsc::narrow::narrow_product<C, 16>;
            case 32:
                return lcsc::narrow::narrow_product<C, 32>;
            case 64:
                return lcsc::narrow::narrow_product<C, 64>;
            default:
                return lcsc::narrow::narrow_product<C, 128>;
        }
    }

    // As many as of the kernel with the most shared memory: one block an SM.
    static std::uint32_t resident_clusters(std::uint32_t splits) {
        Launch launch(splits, lcsc::narrow::block_size, lcsc::narrow::shared_bytes, nullptr);
        int clusters = 0;
        cuda::check(
            cudaOccupancyMaxActiveClusters(&clusters, kernel(128), &launch.clusters_of(splits).config()),
            "compute the occupancy");
        return static_cast<std::uint32_t>(clusters);
    }
};

}  // namespace pk::engine
