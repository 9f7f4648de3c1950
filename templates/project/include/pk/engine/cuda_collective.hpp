// Runs a collective by itself on a GPU.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "pk/engine/collective_plan.hpp"
#include "pk/engine/cuda_device.hpp"
#include "pk/engine/launch.hpp"
#include "pk/lcsc/collective.hpp"

namespace pk::engine {

template <class C>
class CudaCollective : public CudaDevice {
    using Type = typename C::Type;

public:
    CudaCollective(std::int32_t device, std::uint32_t sms, const CollectivePlan&) : CudaDevice(device, sms) {}

    void start(const std::vector<Place>& places, std::uint32_t rank) {
        const cuda::DeviceScope scope(number());
        take_part(places, rank, static_cast<std::uint32_t>(attribute(cudaDevAttrMultiProcessorCount)), 1, 1);
        allocate(sms() * sizeof(std::uint32_t), 0);
    }

    void fill(CollectiveArguments& a) const {
        fill_call(a);
        a.epochs = reinterpret_cast<std::uint32_t*>(local());
    }

    void run(const RowCopy& in, const lcsc::Moves& moves, const RowCopy& out, void* stream) {
        launch(in, out, stream, sms(), lcsc::mover_threads, lcsc::collective<C::collective, Type>, moves);
    }
    void run(const RowCopy& in, const lcsc::SmallSum& sum, const RowCopy& out, void* stream) {
        launch(in, out, stream, static_cast<std::uint32_t>(lcsc::small_blocks(sum.pieces)),
               lcsc::small_pieces, lcsc::small_all_reduce<Type>, sum);
    }

private:
    template <class Told>
    void launch(const RowCopy& in, const RowCopy& out, void* stream, std::uint32_t blocks,
                std::uint32_t threads, void (*kernel)(Told), const Told& told) {
        enqueue(stream, [&](cudaStream_t s) {
            copy_rows(in, s);
            Launch(blocks, threads, 0, s)(kernel, told);
            copy_rows(out, s);
        });
    }
};

}  // namespace pk::engine
