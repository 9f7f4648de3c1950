// Which machine the library is compiled for: PK_CUDA=1 (nvcc) or the host, where a block is one thread.
#pragma once

#include <cstdint>
#include <initializer_list>

#ifndef PK_CUDA
#define PK_CUDA 0
#endif

// Whether workers record what they do and when (mpk/timeline.hpp).
#ifndef PK_TIMELINE
#define PK_TIMELINE 0
#endif

#if PK_CUDA
#ifndef __CUDACC__
#error "PK_CUDA=1 needs nvcc"
#endif
#define PK_DEVICE __device__ __forceinline__
#define PK_HOST_DEVICE __host__ __device__ __forceinline__
#define PK_TABLE __device__ constexpr  // a table known at compile time
#else
#define PK_DEVICE inline
#define PK_HOST_DEVICE inline
#define PK_TABLE inline constexpr
#endif

#if PK_CUDA
#define PK_UNROLL _Pragma("unroll")
#else
#define PK_UNROLL _Pragma("GCC unroll 16")
#endif
#if defined(__CUDA_ARCH__)
#define PK_ROLLED _Pragma("unroll 1")
#elif PK_CUDA  // what nvcc hands to the host's compiler, which would warn
#define PK_ROLLED
#else
#define PK_ROLLED _Pragma("GCC unroll 1")
#endif

namespace pk {

// The largest of a list, for sizes known at compile time.
constexpr std::uint32_t max_of(std::initializer_list<std::uint32_t> values) {
    std::uint32_t most = 0;
    for (std::uint32_t value : values) most = value > most ? value : most;
    return most;
}

}  // namespace pk
