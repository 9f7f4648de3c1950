// A product of few rows on a GPU: how its kernels are launched.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "pk/engine/cuda_device.hpp"
#include "pk/engine/tensor_maps.hpp"
#include "pk/engine/weights.hpp"
#include "pk/lcsc/config.hpp"
#include "pk/lcsc/narrow.hpp"

namespace pk::engine {

// Clusters of two and of four blocks that a rank's part of the device runs at the same time.
struct NarrowClusters {
    std::uint32_t twos = 0, fours = 0;

    void limit(const NarrowClusters& other) {
        twos = std::min(twos, other.twos);
        fours = std::min(fours, other.fours);
    }
    std::uint32_t of(std::uint32_t splits) const { return splits == 2 ? twos : fours; }
};

template <class C>
class CudaNarrow {
public:
    // Of a device with `all` SMs, of which the rank has `part`. Blocks of all ranks wait for each other, so
    // each rank gets its part of the clusters that fit.
    static NarrowClusters clusters(std::uint32_t part, std::uint32_t all) {
        NarrowClusters found;
        for (const std::uint32_t m : {8u, 16u, 32u, 64u, 128u}) {
            cuda::check(cudaFuncSetAttribute(kernel(m), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             lcsc::narrow::shared_bytes(m)),
                        "reserve shared memory");
        }
        const auto fit = [&](std::uint32_t splits) {
            const std::uint64_t resident = resident_clusters(splits);
            return static_cast<std::uint32_t>(
                std::min<std::uint64_t>(resident * part / all, lcsc::narrow::most_blocks / splits));
        };
        found.twos = fit(2);
        found.fours = fit(4);
        return found;
    }

    // All ranks say the same of a call.
    static bool takes(const lcsc::Arguments& a, const NarrowClusters& clusters) {
        if (C::keep_rows || std::uint64_t{a.m} * a.k >= std::uint64_t{1} << 32) return false;
        return a.m <= lcsc::narrow::most_m(a.world, C::reduce != lcsc::Reduce::none) &&
               clusters.of(splits_of(a, clusters)) != 0;
    }

    static void launch(const lcsc::Arguments& a, void* out, std::uint32_t out_stride, const Weights& weights,
                       const NarrowClusters& clusters, std::uint32_t* epochs,
                       TensorMaps<typename C::Type>& maps, cudaStream_t stream) {
        namespace narrow = lcsc::narrow;
        const std::uint32_t splits = splits_of(a, clusters), padded = narrow::padded(a.m);
        narrow::Given given{};
        static_cast<lcsc::Arguments&>(given) = a;
        given.plan = narrow::plan(a.m, lcsc::weight_columns<C>(a.n), splits, clusters.of(splits));
        for (int turn = 0; turn < 2; ++turn) {
            const bool gathers = C::gather && a.world > 1;
            given.rows[turn] =
                gathers ? maps.of(a.peers[a.rank] + a.workspace.gathered[turn], a.m, a.k, a.k, padded)
                        : maps.of(a.shard, a.m, a.k, a.shard_stride, padded);
        }
        const std::uint32_t rows = given.plan.rows / (C::silu_mul ? 2 : 1);
        given.weight = maps.of(weights.weight, a.n, a.k, weights.stride, rows);
        given.up = C::silu_mul ? maps.of(weights.up, a.n, a.k, weights.up_stride, rows) : given.weight;
        given.out = out;
        given.out_stride = out_stride;
        given.epochs = epochs;
        given.pace = 0;
        launch_kernel(splits, given.plan.clusters, padded, stream, given);
    }

private:
    static std::uint32_t splits_of(const lcsc::Arguments& a, const NarrowClusters& clusters) {
        return lcsc::narrow::splits_for(a.m, lcsc::weight_columns<C>(a.n), clusters.fours);
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
        Launch launch(splits, splits, 128, nullptr);
        int clusters = 0;
        cuda::check(cudaOccupancyMaxActiveClusters(&clusters, kernel(128), &launch.config),
                    "compute the occupancy");
        return static_cast<std::uint32_t>(clusters);
    }

    static void launch_kernel(std::uint32_t splits, std::uint32_t clusters, std::uint32_t padded,
                              cudaStream_t stream, const lcsc::narrow::Given& given) {
        Launch launch(splits, splits * clusters, padded, stream);
        cuda::check(cudaLaunchKernelEx(&launch.config, kernel(padded), given), "launch the kernel");
    }

    struct Launch {
        Launch(std::uint32_t splits, std::uint32_t blocks, std::uint32_t padded, cudaStream_t stream) {
            config.gridDim = dim3(blocks);
            config.blockDim = dim3(lcsc::narrow::block_size);
            config.dynamicSmemBytes = lcsc::narrow::shared_bytes(padded);
            config.stream = stream;
            cluster.id = cudaLaunchAttributeClusterDimension;
            cluster.val.clusterDim = {splits, 1, 1};
            config.attrs = &cluster;
            config.numAttrs = 1;
        }
        Launch(const Launch&) = delete;
        Launch& operator=(const Launch&) = delete;
        cudaLaunchConfig_t config{};
        cudaLaunchAttribute cluster{};
    };
};

}  // namespace pk::engine
