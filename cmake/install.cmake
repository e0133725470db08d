# cmake --install: headers, both libraries, and the files by which others find them with CMake and with
# pkg-config. cli/CMakeLists.txt installs the programs. Installed files work in any folder.
include(CMakePackageConfigHelpers)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Vesper)
install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE THIRD-PARTY-NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

set_target_properties(vesper_static PROPERTIES EXPORT_NAME static)
install(TARGETS vesper_shared EXPORT VesperShared)
install(TARGETS vesper_static EXPORT VesperStatic)
foreach(kind Shared Static)
  install(EXPORT Vesper${kind} NAMESPACE Vesper:: DESTINATION ${config_folder})
endforeach()
get_target_property(modules vesper_static REQUIRED_MODULES)
list(JOIN modules " " modules)
configure_package_config_file(cmake/VesperConfig.cmake.in ${CMAKE_BINARY_DIR}/VesperConfig.cmake
  INSTALL_DESTINATION ${config_folder} NO_SET_AND_CHECK_MACRO)
# Before version 1, another minor version may be incompatible.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/VesperConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/VesperConfig.cmake ${CMAKE_BINARY_DIR}/VesperConfigVersion.cmake
        DESTINATION ${config_folder})

file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" to_prefix ${to_prefix})
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
file(RELATIVE_PATH to_headers ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
# Two modules, because Requires.private makes users of the shared library install what only the static
# one needs.
foreach(name vesper vesper-static)
  set(requires "")
  set(libs -lvesper)
  if(name STREQUAL "vesper-static")
    set(requires ${modules})
    set(libs "-l:libvesper.a -lstdc++ -lm -pthread")
  endif()
  configure_file(cmake/vesper.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
