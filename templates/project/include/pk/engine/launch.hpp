// A launch of a kernel with what goes beyond its grid: clusters, and whether it may begin early.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "pk/bootstrap/cuda/scope.hpp"

namespace pk::engine {

class Launch {
public:
    Launch(std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes, cudaStream_t stream) {
        config_.gridDim = dim3(blocks);
        config_.blockDim = dim3(threads);
        config_.dynamicSmemBytes = shared_bytes;
        config_.stream = stream;
        config_.attrs = attributes_;
    }
    Launch(const Launch&) = delete;
    Launch& operator=(const Launch&) = delete;

    // So many blocks to a cluster, where the kernel does not say so itself.
    Launch& clusters_of(std::uint32_t blocks) {
        cudaLaunchAttribute& cluster = add(cudaLaunchAttributeClusterDimension);
        cluster.val.clusterDim = {blocks, 1, 1};
        return *this;
    }
    // It may begin when the kernel before it lets it (ptx/dependent_launch.hpp).
    Launch& early(bool allowed) {
        if (allowed) {
            cudaLaunchAttribute& early = add(cudaLaunchAttributeProgrammaticStreamSerialization);
            early.val.programmaticStreamSerializationAllowed = 1;
        }
        return *this;
    }

    const cudaLaunchConfig_t& config() const { return config_; }

    template <class... Parameters, class... Told>
    void operator()(void (*kernel)(Parameters...), const Told&... told) const {
        bootstrap::cuda::check(cudaLaunchKernelEx(&config_, kernel, told...), "launch the kernel");
    }

private:
    cudaLaunchAttribute& add(cudaLaunchAttributeID what) {
        cudaLaunchAttribute& added = attributes_[config_.numAttrs++];
        added.id = what;
        return added;
    }

    cudaLaunchConfig_t config_{};
    cudaLaunchAttribute attributes_[2] = {};
};

}  // namespace pk::engine
