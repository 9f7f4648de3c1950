# What find_package(tiny) needs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tiny EXPORT tiny-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/tiny DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT tiny-targets NAMESPACE tiny::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tiny)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/tiny-config-version.cmake
  COMPATIBILITY SameMajorVersion)
install(FILES cmake/tiny-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/tiny-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tiny)
