// Kernels as the CUDA runtime's functions take them.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

namespace mpk::engine {

template <class... Parameters>
const void* kernel_address(void (*kernel)(Parameters...)) {
    return reinterpret_cast<const void*>(kernel);
}

// kernel<<<grid, threads, 0, stream>>>(arguments...). Returns what keeps it from starting.
template <class... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 threads, cudaStream_t stream,
                          std::type_identity_t<Parameters>... arguments) {
    void* pointers[] = {&arguments...};
    return cudaLaunchKernel(kernel_address(kernel), grid, threads, pointers, 0, stream);
}

}  // namespace mpk::engine
