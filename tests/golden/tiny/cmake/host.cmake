# The host target: workers are threads.
if(TINY_NATIVE)
  target_compile_options(tiny PRIVATE -march=native)
endif()
# No -ffast-math: additions keep the order they are written in. A multiplication may be fused into an addition.
target_compile_options(tiny PRIVATE -ffp-contract=fast -fno-math-errno)
# Without AVX g++ notes that passing vectors by value changed once; here they never cross a library.
target_compile_options(tiny PRIVATE -Wno-psabi)
if(TINY_SANITIZE_THREAD)
  target_compile_options(tiny PRIVATE -fsanitize=thread -g)
  target_link_options(tiny PRIVATE -fsanitize=thread)
endif()
