# The CUDA target: a run is one launch. The kernel is for sm_90a and no other architecture.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
enable_language(CUDA)

set_source_files_properties(src/api.cpp PROPERTIES LANGUAGE CUDA)
target_compile_definitions(gemm_rs PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:PK_CUDA=1>)
# The standard as an option: CMake 3.25 does not know that nvcc has C++20.
target_compile_options(gemm_rs PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -lineinfo -Xcompiler=-Wall,-Wextra>)
if(GEMM_RS_PTXAS_VERBOSE)
  target_compile_options(gemm_rs PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
endif()
set_target_properties(gemm_rs PROPERTIES
  CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
  CUDA_RUNTIME_LIBRARY Static)
