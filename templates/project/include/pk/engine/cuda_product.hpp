// Runs an overlapped product on a GPU: one launch a run, as many blocks as fit at the same time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "pk/engine/cuda_device.hpp"
#include "pk/engine/tensor_maps.hpp"
#include "pk/engine/weights.hpp"
#include "pk/engine/workspace.hpp"
#include "pk/lcsc/kernel.hpp"

namespace pk::engine {

template <class C>
class CudaProduct : public CudaDevice {
    using L = lcsc::Layout<C>;

public:
    CudaProduct(std::int32_t device, std::uint32_t sms, const WorkspacePlan& plan)
        : CudaDevice(device, sms), blocks_(plan.blocks) {
        const cuda::DeviceScope scope(number());
        const int room = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
        static constexpr std::uint32_t bytes = std::max(L::bytes, lcsc::Layout<lcsc::Half<C>>::bytes);
        if (static_cast<std::uint32_t>(room) < bytes) {
            fail(Status::unsupported_device, "a block needs ", bytes, " bytes of shared memory, device ",
                 number(), " has ", room);
        }
        maps_.emplace();
    }

    void start(const std::vector<Place>& places, std::uint32_t rank) {
        const cuda::DeviceScope scope(number());
        take_part(places, rank, resident_blocks(), lcsc::members);
        allocate(counts_bytes(), C::reduce == lcsc::Reduce::none
                                     ? 0
                                     : std::uint64_t{sms()} * L::staging_slots * L::staged_bytes);
    }

    void fill(lcsc::Arguments& a) const {
        fill_call(a);
        a.gathered_counts = reinterpret_cast<std::uint32_t*>(local());
        a.staging = local() + counts_bytes();
        a.pace = C::pace * sms() / paced_sms;
    }

    void run(const lcsc::Arguments& a, const Weights& weights, const RowCopy& out, void* stream) {
        enqueue(stream, [&](cudaStream_t s) {
            if (lcsc::takes_half<C>(a.m, a.n, a.world, sms())) {
                launch<lcsc::Half<C>>(a, weights, s);
            } else {
                launch<C>(a, weights, s);
            }
            copy_rows(out, s);
        });
    }

private:
    template <class Tiles>
    void launch(const lcsc::Arguments& a, const Weights& weights, cudaStream_t stream) {
        const lcsc::Maps maps = maps_of<Tiles>(a, weights);
        cudaLaunchConfig_t launch{};
        launch.gridDim = dim3(sms());
        launch.blockDim = dim3(lcsc::block_size);
        launch.dynamicSmemBytes = lcsc::Layout<Tiles>::bytes;
        launch.stream = stream;
        cuda::check(cudaLaunchKernelEx(&launch, lcsc::overlapped<Tiles>, a, maps), "launch the kernel");
    }

    static constexpr std::uint32_t paced_sms = 132;  // that share the link where C::pace was measured

    std::size_t counts_bytes() const { return (blocks_ * sizeof(std::uint32_t) + 255) / 256 * 256; }

    // How many blocks can run at the same time, in whole clusters.
    std::uint32_t resident_blocks() const {
        return std::min(resident_blocks<C>(), resident_blocks<lcsc::Half<C>>());
    }
    template <class Tiles>
    std::uint32_t resident_blocks() const {
        const auto kernel = lcsc::overlapped<Tiles>;
        static constexpr std::uint32_t bytes = lcsc::Layout<Tiles>::bytes;
        cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                    "reserve shared memory");
        cudaLaunchConfig_t launch{};
        const auto sms = static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount));
        launch.gridDim = dim3(sms / lcsc::members * lcsc::members);
        launch.blockDim = dim3(lcsc::block_size);
        launch.dynamicSmemBytes = bytes;
        cudaLaunchAttribute cluster{};
        cluster.id = cudaLaunchAttributeClusterDimension;
        cluster.val.clusterDim = {lcsc::members, 1, 1};
        launch.attrs = &cluster;
        launch.numAttrs = 1;
        int clusters = 0;
        cuda::check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch), "compute the occupancy");
        if (clusters == 0) fail(Status::unsupported_device, "no block fits on an SM of device ", number());
        return static_cast<std::uint32_t>(clusters) * lcsc::members;
    }

    // A rank that has no rows has no matrix of them: its map is of something that is there, and is not used.
    template <class Tiles>
    lcsc::Maps maps_of(const lcsc::Arguments& a, const Weights& weights) {
        const std::uint32_t own = C::gather ? a.shards.count(a.rank) : a.m;
        const auto weight = [&](const void* data, std::uint32_t stride) -> const auto& {
            return maps_->of(data, a.n, a.k, stride, lcsc::Layout<Tiles>::part_rows);
        };
        const auto rows = [&](const void* data, std::uint32_t count, std::uint32_t stride) -> const auto& {
            return maps_->of(data, count, a.k, stride, L::tile_m);
        };
        lcsc::Maps maps;
        maps.weight = weight(weights.weight, weights.stride);
        maps.up = C::silu_mul ? weight(weights.up, weights.up_stride) : maps.weight;
        maps.shard = own == 0 ? maps.weight : rows(a.shard, own, a.shard_stride);
        for (int turn = 0; turn < 2; ++turn) {
            const char* gathered = a.peers[a.rank] + a.workspace.gathered[turn];
            maps.gathered[turn] = C::gather ? rows(gathered, a.m, a.k) : maps.shard;
        }
        return maps;
    }

    std::uint32_t blocks_;
    std::optional<TensorMaps<typename C::Type>> maps_;
};

}  // namespace pk::engine
