# The host target: workers are threads.
if(SMOLLM2_135M_NATIVE)
  target_compile_options(smollm2_135m PRIVATE -march=native)
endif()
# No -ffast-math: additions keep the order they are written in. A multiplication may be fused into an addition.
target_compile_options(smollm2_135m PRIVATE -ffp-contract=fast -fno-math-errno)
# Without AVX g++ notes that passing vectors by value changed once; here they never cross a library.
target_compile_options(smollm2_135m PRIVATE -Wno-psabi)
if(SMOLLM2_135M_SANITIZE_THREAD)
  target_compile_options(smollm2_135m PRIVATE -fsanitize=thread -g)
  target_link_options(smollm2_135m PRIVATE -fsanitize=thread)
endif()
