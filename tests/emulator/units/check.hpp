// Checks of the emulator's own tests, and launches of their kernels.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "mpk/engine/kernel.hpp"

namespace units {

inline int failures = 0;

inline void check(bool holds, const char* what) {
    if (holds) return;
    ++failures;
    std::printf("FAIL %s\n", what);
}

// Runs `kernel` on clusters of `cluster` blocks, all at the same time.
template <class... Parameters>
cudaError_t run(void (*kernel)(Parameters...), unsigned int blocks, unsigned int cluster,
                unsigned int threads, std::size_t bytes, std::type_identity_t<Parameters>... arguments) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {cluster, 1, 1};
    cudaLaunchConfig_t config;
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    void* pointers[] = {&arguments...};
    if (cluster == 1) {
        attribute.id = cudaLaunchAttributeCooperative;
        attribute.val.cooperative = 1;
    }
    return cudaLaunchKernelExC(&config, mpk::engine::kernel_address(kernel), pointers);
}

// The order of everything in the launches that follow.
inline void seed(int number) {
    setenv("EMULATOR_SEED", std::to_string(number).c_str(), 1);
}

}  // namespace units
