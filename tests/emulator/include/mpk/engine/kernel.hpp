// Kernels as the runtime's functions take them: takes the place of the project's header, as the emulator must
// know how a kernel is called whose address it gets.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace mpk::engine {

template <class... Parameters>
const void* kernel_address(void (*kernel)(Parameters...)) {
    const void* address = reinterpret_cast<const void*>(kernel);
    emulator::know_kernel(address, [](const void* known, void** arguments) {
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(known))(
                *static_cast<std::remove_cv_t<Parameters>*>(arguments[I])...);
        }(std::index_sequence_for<Parameters...>());
    });
    return address;
}

template <class... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 threads, cudaStream_t stream,
                          std::type_identity_t<Parameters>... arguments) {
    void* pointers[] = {&arguments...};
    return cudaLaunchKernel(kernel_address(kernel), grid, threads, pointers, 0, stream);
}

}  // namespace mpk::engine
