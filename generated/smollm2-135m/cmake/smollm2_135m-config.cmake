include(${CMAKE_CURRENT_LIST_DIR}/smollm2_135m-targets.cmake)
