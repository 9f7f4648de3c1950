# The CUDA target: workers are thread blocks of one cooperative kernel.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
enable_language(CUDA)

set_source_files_properties(src/api.cpp PROPERTIES LANGUAGE CUDA)
target_compile_definitions(tiny PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:PK_CUDA=1>)
# The standard as an option: CMake 3.25 does not know that nvcc has C++20.
target_compile_options(tiny PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -lineinfo -Xcompiler=-Wall,-Wextra>)
if(TINY_PTXAS_VERBOSE)
  target_compile_options(tiny PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas=-v>)
endif()
set_target_properties(tiny PROPERTIES
  CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
  CUDA_RUNTIME_LIBRARY Static)
