// Runs an overlapped product on a GPU: one launch a run, as many blocks as fit at the same time.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "pk/engine/copy_engine.hpp"
#include "pk/engine/cuda_device.hpp"
#include "pk/engine/cuda_narrow.hpp"
#include "pk/engine/launch.hpp"
#include "pk/engine/tensor_maps.hpp"
#include "pk/engine/weights.hpp"
#include "pk/engine/workspace.hpp"
#include "pk/lcsc/kernel.hpp"
#include "pk/lcsc/pace.hpp"

namespace pk::engine {

template <class C>
class CudaProduct : public CudaDevice {
    using L = lcsc::Layout<C>;

public:
    CudaProduct(std::int32_t device, std::uint32_t sms, const WorkspacePlan& plan)
        : CudaDevice(device, sms), blocks_(plan.blocks), slots_(plan.places.narrow_slots) {
        const cuda::DeviceScope scope(number());
        const int room = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
        static constexpr std::uint32_t bytes = std::max(L::bytes, lcsc::Layout<lcsc::Half<C>>::bytes);
        if (static_cast<std::uint32_t>(room) < bytes) {
            fail(Status::unsupported_device, "a block needs ", bytes, " bytes of shared memory, device ",
                 number(), " has ", room);
        }
        maps_.emplace();
    }

    // What ranks agree on, as all that they do goes by it: the least of each.
    struct Capacity {
        std::uint32_t sms, copies;
        lcsc::narrow::Clusters narrow;
    };

    void start(const std::vector<Place>& places, std::uint32_t rank) {
        const cuda::DeviceScope scope(number());
        const auto all = static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount));
        take_part(places, rank, resident_blocks(), lcsc::members, lcsc::least_sms<C>(lcsc::members));
        narrow_ = CudaNarrow<C>::clusters(sms(), all);
        // Where ranks wait for each other this has not been tried with a GPU for each, and must not be where
        // they share one: a rank's next call would take the room of another's.
        early_ = (!lcsc::over_ranks<C> || places.size() == 1) && captures_early_launches();
        // Streams of ranks that share a device may wait for each other, and so for what cannot begin.
        if constexpr (lcsc::can_copy<C>) {
            if (!any_share(places)) copy_engine_.emplace(number());
        }
        tallies_ = lcsc::inter_sm<C> && staging_bytes() != 0 ? computing() : 0;
        allocate(before_staging(), staging_bytes() + std::uint64_t{sharing_blocks()} * L::sums_bytes);
    }

    Capacity capacity() const { return {sms(), copy_engine_ ? 1u : 0u, narrow_}; }
    void limit(const Capacity& other) {
        CudaDevice::limit(other.sms);
        if (other.copies == 0) copy_engine_.reset();
        narrow_.limit(other.narrow);
    }

    void fill(lcsc::Arguments& a) const {
        fill_call(a);
        a.gathered_counts = reinterpret_cast<std::uint32_t*>(local());
        a.copied_epochs = reinterpret_cast<std::uint32_t*>(local() + words(blocks_));
        a.tallies = reinterpret_cast<lcsc::Tallies*>(local() + words(blocks_) * 2 + words(slots_) +
                                                     words(sharing_blocks()));
        a.part_flags = reinterpret_cast<std::uint32_t*>(local() + words(blocks_) * 2 + words(slots_));
        a.staging = local() + before_staging();
        a.parts = a.staging + staging_bytes();
        a.pace = C::pace * sms() / paced_sms;
    }

    // `out`: what the caller gave, where a call's kernel writes to it without the peers.
    void run(lcsc::Arguments a, const Weights& weights, const OwnOutput& own, const RowCopy& out,
             void* stream) {
        enqueue(stream, [&](cudaStream_t s) {
            if constexpr (lcsc::can_copy<C>) {
                if (copy_engine_ && lcsc::takes_copies<C>(a)) {
                    a.copied = 1;
                    return copy_engine_->beside<C>(a, s, [&] { launch_product(a, weights, s); });
                }
            }
            if (CudaNarrow<C>::takes(a, narrow_)) {
                auto* epochs = reinterpret_cast<std::uint32_t*>(local() + words(blocks_) * 2);
                return CudaNarrow<C>::launch(a, own.data, own.stride, weights, narrow_, epochs, *maps_,
                                             early_, s);
            }
            if (!lcsc::keeps_pace<C>(a.n, a.world)) a.pace = 0;
            launch_product(a, weights, s);
            copy_rows(out, s);
        });
    }

private:
    static bool captures_early_launches() {
        int driver = 0;
        cuda::check(cudaDriverGetVersion(&driver), "read the driver's version");
        return driver >= 12030;
    }
    static bool any_share(const std::vector<Place>& places) {
        for (std::size_t r = 0; r < places.size(); ++r) {
            for (std::size_t other = 0; other < r; ++other) {
                if (std::memcmp(&places[r].device, &places[other].device, sizeof places[r].device) == 0)
                    return true;
            }
        }
        return false;
    }

    void launch_product(lcsc::Arguments a, const Weights& weights, cudaStream_t stream) {
        const lcsc::TileChoice choice = lcsc::choose_tile<C>(a.m, a.n, a.k, a.world, computing());
        a.sharing = choice.sharing;
        if (choice.half) {
            launch<lcsc::Half<C>>(a, weights, stream);
        } else {
            launch<C>(a, weights, stream);
        }
    }

    template <class Tiles>
    void launch(const lcsc::Arguments& a, const Weights& weights, cudaStream_t stream) {
        const lcsc::Maps maps = maps_of<Tiles>(a, weights);
        Launch(sms(), lcsc::block_size, lcsc::Layout<Tiles>::bytes, stream)
            .early(early_)(lcsc::overlapped<Tiles>, a, maps);
    }

    static constexpr std::uint32_t paced_sms = 132;  // that share the link where C::pace was measured

    static std::size_t words(std::uint32_t count) {
        return (count * sizeof(std::uint32_t) + 255) / 256 * 256;
    }

    // Bytes of what is zero at first: counts and epochs of blocks of rows, epochs of slots, tallies.
    std::size_t before_staging() const {
        return words(blocks_) * 2 + words(slots_) + words(sharing_blocks()) +
               (tallies_ * sizeof(lcsc::Tallies) + 255) / 256 * 256;
    }
    // Of tiles that wait to be pushed.
    std::uint64_t staging_bytes() const {
        if (C::reduce == lcsc::Reduce::none) return 0;
        return std::uint64_t{computing()} * L::staging_slots * L::staged_bytes;
    }
    // Blocks that may share tiles: where none of them only communicate.
    std::uint32_t sharing_blocks() const { return lcsc::inter_sm<C> ? 0 : sms(); }
    // Blocks that compute.
    std::uint32_t computing() const { return sms() - lcsc::communicating<C>(sms(), lcsc::members); }

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
        const auto sms = static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount));
        Launch launch(sms / lcsc::members * lcsc::members, lcsc::block_size, bytes, nullptr);
        launch.clusters_of(lcsc::members);
        int clusters = 0;
        cuda::check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &launch.config()),
                    "compute the occupancy");
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
        const auto rows = [&](const void* data, std::uint32_t count, std::uint32_t stride) {
            const auto of_boxes = [&](std::uint32_t height) -> const auto& {
                return maps_->of(data, count, a.k, stride, height == 0 ? L::tile_m : height);
            };
            const std::uint32_t each = a.shards.each, last = a.shards.rows % each;
            return lcsc::RowMaps{of_boxes(L::tile_m),
                                 {of_boxes(each % L::tile_m), of_boxes(last % L::tile_m)}};
        };
        lcsc::Maps maps;
        maps.weight = weight(weights.weight, weights.stride);
        maps.up = C::silu_mul ? weight(weights.up, weights.up_stride) : maps.weight;
        maps.shard = own == 0 ? lcsc::RowMaps{maps.weight, {maps.weight, maps.weight}}
                              : rows(a.shard, own, a.shard_stride);
        for (int turn = 0; turn < 2; ++turn) {
            const char* gathered = a.peers[a.rank] + a.workspace.gathered[turn];
            maps.gathered[turn] = C::gather ? rows(gathered, a.m, a.k) : maps.shard;
        }
        return maps;
    }

    std::uint32_t blocks_, slots_, tallies_ = 0;
    lcsc::narrow::Clusters narrow_;
    bool early_ = false;  // launches may begin while the kernel before ends
    std::optional<CopyEngine> copy_engine_;
    std::optional<TensorMaps<typename C::Type>> maps_;
};

}  // namespace pk::engine
