include(${CMAKE_CURRENT_LIST_DIR}/gemm_rs-targets.cmake)
