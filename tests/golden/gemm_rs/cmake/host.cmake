# The host target: threads stand for SMs.
if(GEMM_RS_NATIVE)
  target_compile_options(gemm_rs PRIVATE -march=native)
endif()
# No -ffast-math: additions keep the order they are written in. A multiplication may be fused into an addition.
target_compile_options(gemm_rs PRIVATE -ffp-contract=fast -fno-math-errno)
# Without AVX g++ notes that passing vectors by value changed once; here they never cross a library.
target_compile_options(gemm_rs PRIVATE -Wno-psabi)
if(GEMM_RS_SANITIZE_THREAD)
  target_compile_options(gemm_rs PRIVATE -fsanitize=thread -g)
  target_link_options(gemm_rs PRIVATE -fsanitize=thread)
endif()
