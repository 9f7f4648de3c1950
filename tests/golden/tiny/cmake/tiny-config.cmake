include(${CMAKE_CURRENT_LIST_DIR}/tiny-targets.cmake)
