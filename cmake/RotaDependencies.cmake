# What rota is built on. Shared by the build and by the installed package (rotaConfig.cmake), where find_dependency
# hands REQUIRED and QUIET on; the build itself cannot do without any of them.

include(CMakeFindDependencyMacro)
macro(rota_depends_on package)
  if(CMAKE_FIND_PACKAGE_NAME STREQUAL "rota")
    find_dependency(${package} ${ARGN})
  else()
    find_package(${package} REQUIRED ${ARGN})
  endif()
endmacro()

rota_depends_on(Threads)
rota_depends_on(MPI COMPONENTS CXX)
rota_depends_on(Hdf5C)
rota_depends_on(ZLIB)
rota_depends_on(zstd)
rota_depends_on(XxHash)
rota_depends_on(LibArchive)
rota_depends_on(Isal)
rota_depends_on(Minizip)
rota_depends_on(nlohmann_json)
rota_depends_on(fmt)
rota_depends_on(cereal)
