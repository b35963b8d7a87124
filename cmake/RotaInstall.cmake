# Installs and exports the libraries, for `find_package(rota)` in another project.

include(CMakePackageConfigHelpers)
get_property(rota_libraries GLOBAL PROPERTY ROTA_LIBRARIES)
set(rota_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rota)

install(TARGETS ${rota_libraries} EXPORT rota
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET rota_cli)
  install(TARGETS rota_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/python/rota/_report.py
    DESTINATION ${CMAKE_INSTALL_DATADIR}/rota RENAME report.py)  # the tool runs it
endif()
install(EXPORT rota NAMESPACE rota:: FILE rotaTargets.cmake DESTINATION ${rota_config_dir})

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/rotaConfig.cmake.in
  ${PROJECT_BINARY_DIR}/rotaConfig.cmake INSTALL_DESTINATION ${rota_config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/rotaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/rotaConfig.cmake
  ${PROJECT_BINARY_DIR}/rotaConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/RotaDependencies.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindHdf5C.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindIsal.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibaio.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLz4.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLzf.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindMinizip.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindXxHash.cmake
  ${PROJECT_SOURCE_DIR}/cmake/RotaFindLibrary.cmake
  DESTINATION ${rota_config_dir})
