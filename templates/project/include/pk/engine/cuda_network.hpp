// Runs an all-reduce in the network on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "pk/engine/cuda_device.hpp"
#include "pk/engine/launch.hpp"
#include "pk/engine/network_plan.hpp"
#include "pk/lcsc/network.hpp"

namespace pk::engine {

template <class C>
class CudaNetwork : public CudaDevice {
public:
    CudaNetwork(std::int32_t device, std::uint32_t sms, const NetworkPlan&) : CudaDevice(device, sms) {}

    void start(const std::vector<Place>& places, std::uint32_t rank) {
        const cuda::DeviceScope scope(number());
        take_part(places, rank, static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount)), 1, 1);
        allocate(0, 0);
    }

    void fill(NetworkArguments& a) const { fill_call(a); }

    void run(const RowCopy& in, const lcsc::NetworkSum& sum, const RowCopy& out, void* stream) {
        enqueue(stream, [&](cudaStream_t s) {
            copy_rows(in, s);
            Launch(sms(), lcsc::mover_threads, 0, s)(lcsc::network_all_reduce<typename C::Type>, sum);
            copy_rows(out, s);
        });
    }
};

}  // namespace pk::engine
