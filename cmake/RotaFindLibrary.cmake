# rota_find_library(Isal isa-l/crc.h isal): finds a library that has no package of CMake's, as Isal::Isal.

include(FindPackageHandleStandardArgs)
macro(rota_find_library package header library)
  find_path(${package}_INCLUDE_DIR ${header})
  find_library(${package}_LIBRARY ${library})
  mark_as_advanced(${package}_INCLUDE_DIR ${package}_LIBRARY)
  find_package_handle_standard_args(${package} REQUIRED_VARS ${package}_LIBRARY ${package}_INCLUDE_DIR)
  if(${package}_FOUND AND NOT TARGET ${package}::${package})
    add_library(${package}::${package} UNKNOWN IMPORTED)
    set_target_properties(${package}::${package} PROPERTIES
      IMPORTED_LOCATION "${${package}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${${package}_INCLUDE_DIR}")
  endif()
endmacro()
