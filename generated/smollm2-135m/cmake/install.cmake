# What find_package(smollm2_135m) needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS smollm2_135m EXPORT smollm2_135m-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/smollm2_135m DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT smollm2_135m-targets NAMESPACE smollm2_135m::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/smollm2_135m)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/smollm2_135m-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES cmake/smollm2_135m-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/smollm2_135m-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/smollm2_135m)
