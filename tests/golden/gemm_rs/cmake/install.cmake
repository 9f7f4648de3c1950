# What find_package(gemm_rs) needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS gemm_rs EXPORT gemm_rs-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/gemm_rs DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT gemm_rs-targets NAMESPACE gemm_rs::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gemm_rs)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/gemm_rs-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES cmake/gemm_rs-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/gemm_rs-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/gemm_rs)
