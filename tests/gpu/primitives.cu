// The primitives on real devices: a block is a rank, of one device or of as many as there are.
//   nvcc -std=c++20 -O2 -DPK_CUDA=1 -gencode=arch=compute_90a,code=sm_90a -Itemplates/project/include
//        -Itests/headers tests/gpu/primitives.cu -o primitives && ./primitives
#include <string>
#include <vector>

#include "cases/bootstrap_memory.hpp"
#include "cases/primitives.hpp"

namespace {

using pk::bootstrap::cuda::check;

__global__ void run_rank(const __grid_constant__ testing::PeerTensor<char> memory, testing::Places places,
                         std::uint32_t* errors) {
    __shared__ alignas(128) char buffer[testing::tile_bytes];
    testing::RankOf mine{memory, places, threadIdx.x, blockDim.x, buffer};
    mine.run();
    atomicAdd(errors, mine.errors);
}

void ranks_case(testing::Suite& suite, int world, int devices) {
    const std::string name = testing::fresh_name();
    const testing::Errors errors = testing::as_threads(world, [&](int rank) {
        const auto exchange = testing::meet(name, rank, world);
        const testing::Places places{static_cast<std::uint32_t>(world)};
        const int device = rank % devices;
        const pk::bootstrap::PeerMemory memory(*exchange, places.bytes(), device);
        const pk::bootstrap::cuda::DeviceScope scope(device);
        testing::PeerTensor<char> tensor{
            static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(world), {}};
        for (int r = 0; r < world; ++r) tensor.at[r] = memory.at(r);
        std::uint32_t *wrong = nullptr, count = 0;
        check(cudaMalloc(&wrong, sizeof *wrong), "allocate a counter");
        check(cudaMemcpy(wrong, &count, sizeof count, cudaMemcpyHostToDevice), "clear a counter");
        const pk::bootstrap::cuda::Stream stream;
        exchange->barrier();
        run_rank<<<1, 256, 0, stream.get()>>>(tensor, places, wrong);
        check(cudaGetLastError(), "launch a rank");
        check(cudaStreamSynchronize(stream.get()), "run a rank");
        check(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost), "read a counter");
        check(cudaFree(wrong), "free a counter");
        exchange->barrier();
        testing::require(count == 0, std::to_string(count) + " values are wrong");
    });
    suite.check(
        "primitives of " + std::to_string(world) + " ranks on " + std::to_string(devices) + " devices",
        testing::first_error(errors).empty(), testing::first_error(errors));
}

}  // namespace

int main() {
    testing::Suite suite;
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "find a device");
    for (const int world : {1, 2, 3, 8}) {
        ranks_case(suite, world, 1);
        if (devices > 1) ranks_case(suite, world, devices);
    }
    return suite.finish();
}
