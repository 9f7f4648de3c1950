// What nvcc adds to C++, for g++: the marks on functions and variables mean nothing here, as device code runs
// on the host.
#pragma once

#define __CUDACC__ 1
#define __CUDA_ARCH_FEAT_SM90_ALL 1

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
