// The same cases, and the event protocol, on a GPU:
//   nvcc -std=c++20 -DPK_CUDA=1 -gencode=arch=compute_90a,code=sm_90a -I../../templates/project/include -I.
//   gpu_tasks.cu
#include "cases/all_tasks.hpp"
#include "cases/protocol.hpp"

int main() {
    testing::Suite suite;
    testing::all_task_cases(suite);

    int device = 0, multiprocessors = 0;
    testing::require(cudaGetDevice(&device), "cudaGetDevice");
    testing::require(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device),
                     "attribute");
    testing::protocol_cases(suite, {1, 2, 8, static_cast<std::uint32_t>(multiprocessors)}, 3000);
    return suite.finish();
}
