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

# What the bench holds a step against.
if(PROJECT_IS_TOP_LEVEL)
  add_executable(tiny_read_ceiling bench/read_ceiling.cu)
  target_include_directories(tiny_read_ceiling PRIVATE include)
  target_compile_definitions(tiny_read_ceiling PRIVATE PK_CUDA=1)
  target_compile_options(tiny_read_ceiling PRIVATE -std=c++20 -Xcompiler=-Wall,-Wextra)
  set_target_properties(tiny_read_ceiling PROPERTIES
    CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
    CUDA_RUNTIME_LIBRARY Static
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endif()
