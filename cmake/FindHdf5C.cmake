# Finds HDF5's C library as Hdf5C::Hdf5C, with MPI or without: rota makes no parallel call, so either will do.
#   ROTA_HDF5   serial, parallel, or any (the default): serial where both are there. A program is to have one HDF5: one
#               that calls a parallel HDF5 itself needs that here, too.
#   HDF5_ROOT   where it is, if not in a usual place: it is looked for there alone
# Sets Hdf5C_FLAVOUR to parallel or serial.

if(NOT DEFINED ROTA_HDF5)
  set(ROTA_HDF5 any CACHE STRING "Which HDF5 to build with: serial, parallel or any")
  set_property(CACHE ROTA_HDF5 PROPERTY STRINGS any serial parallel)
endif()
if(NOT ROTA_HDF5 MATCHES "^(any|parallel|serial)$")
  message(FATAL_ERROR "ROTA_HDF5 is \"${ROTA_HDF5}\": it must be serial, parallel or any")
endif()

set(_rota_roots ${HDF5_ROOT})
if(NOT _rota_roots)
  set(_rota_roots $ENV{HDF5_ROOT})
endif()
set(_rota_where "")
if(_rota_roots)
  set(_rota_where PATHS ${_rota_roots} NO_DEFAULT_PATH)
endif()

# Folders that are named for what they hold come before those that may hold either.
set(_rota_folders_parallel hdf5/openmpi hdf5/mpich openmpi-x86_64 mpich-x86_64)
set(_rota_folders_serial hdf5/serial)
set(_rota_kinds ${ROTA_HDF5})
if(ROTA_HDF5 STREQUAL "any")
  set(_rota_kinds serial parallel)
endif()

# Whether the headers in `folder` are parallel or serial.
function(_rota_ask_kind folder kind)
  set(${kind} serial PARENT_SCOPE)
  file(GLOB configs ${folder}/H5pubconf*.h)
  foreach(config IN LISTS configs)
    file(STRINGS ${config} line REGEX "^#define H5_HAVE_PARALLEL 1")
    if(line)
      set(${kind} parallel PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# The first folder with headers of that kind, and one that was passed over for it, as `other`.
function(_rota_find_headers kind headers other)
  set(folders ${_rota_folders_${kind}})
  list(TRANSFORM folders PREPEND include/ OUTPUT_VARIABLE include_folders)
  foreach(attempt RANGE 100)
    unset(_rota_folder)
    find_path(_rota_folder hdf5.h ${_rota_where} PATH_SUFFIXES ${include_folders} include ${folders} NO_CACHE)
    if(NOT _rota_folder)
      return()
    endif()
    string(REGEX REPLACE "/$" "" _rota_folder ${_rota_folder})
    _rota_ask_kind(${_rota_folder} found)
    if(found STREQUAL kind)
      set(${headers} ${_rota_folder} CACHE PATH "Where hdf5.h is" FORCE)
      return()
    endif()
    set(${other} ${_rota_folder} PARENT_SCOPE)
    list(APPEND CMAKE_IGNORE_PATH ${_rota_folder})
  endforeach()
endfunction()

# Named by what was asked for, so that another answer is looked for anew.
set(_rota_other "")
foreach(_rota_kind IN LISTS _rota_kinds)
  if(NOT Hdf5C_INCLUDE_DIR_${ROTA_HDF5})
    _rota_find_headers(${_rota_kind} Hdf5C_INCLUDE_DIR_${ROTA_HDF5} _rota_other)
  endif()
endforeach()
set(Hdf5C_INCLUDE_DIR ${Hdf5C_INCLUDE_DIR_${ROTA_HDF5}})

# The library is below the folder that the headers are below: named for its kind, or in a folder that is; only
# where it is not, and HDF5_ROOT does not say that it must be, it may be anywhere.
set(_rota_prefix "")
set(_rota_build "")
if(Hdf5C_INCLUDE_DIR MATCHES "^(.*)/include(/(hdf5/)?(openmpi|mpich|serial)(-x86_64)?)?$")
  set(_rota_prefix ${CMAKE_MATCH_1})
  set(_rota_build ${CMAKE_MATCH_4})
endif()
set(_rota_lib_folders lib/${CMAKE_LIBRARY_ARCHITECTURE} lib64 lib)
set(_rota_name hdf5)
if(_rota_build)
  set(_rota_name hdf5_${_rota_build})
endif()
find_library(Hdf5C_LIBRARY_${ROTA_HDF5} ${_rota_name} PATHS ${_rota_prefix}
  PATH_SUFFIXES ${_rota_lib_folders} NO_DEFAULT_PATH)
foreach(_rota_folder IN LISTS _rota_lib_folders)
  if(_rota_build)
    find_library(Hdf5C_LIBRARY_${ROTA_HDF5} hdf5 PATHS ${_rota_prefix}
      PATH_SUFFIXES ${_rota_folder}/hdf5/${_rota_build} ${_rota_folder}/${_rota_build}/lib NO_DEFAULT_PATH)
  endif()
endforeach()
if(NOT _rota_roots)
  find_library(Hdf5C_LIBRARY_${ROTA_HDF5} ${_rota_name})
endif()
mark_as_advanced(Hdf5C_INCLUDE_DIR_${ROTA_HDF5} Hdf5C_LIBRARY_${ROTA_HDF5})

set(Hdf5C_FLAVOUR "")
if(Hdf5C_INCLUDE_DIR)
  _rota_ask_kind(${Hdf5C_INCLUDE_DIR} Hdf5C_FLAVOUR)
endif()

set(_rota_packages_any libhdf5-dev)
set(_rota_packages_parallel libhdf5-openmpi-dev)
set(_rota_packages_serial libhdf5-dev)
set(_rota_way_out "install ${_rota_packages_${ROTA_HDF5}}, or set HDF5_ROOT")
if(_rota_roots)
  set(_rota_way_out "HDF5_ROOT is ${_rota_roots}: set HDF5_ROOT to another, or leave it out and install \
${_rota_packages_${ROTA_HDF5}}")
endif()
if(Hdf5C_INCLUDE_DIR)
  set(_rota_reason "no library was found for ${Hdf5C_INCLUDE_DIR}: ${_rota_way_out}")
elseif(_rota_other)
  _rota_ask_kind(${_rota_other} _rota_kind)
  set(_rota_reason "the HDF5 in ${_rota_other} is ${_rota_kind}, and ROTA_HDF5 is ${ROTA_HDF5}: ${_rota_way_out}")
else()
  set(_rota_reason "no hdf5.h was found: ${_rota_way_out}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Hdf5C
  REQUIRED_VARS Hdf5C_LIBRARY_${ROTA_HDF5} Hdf5C_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "${_rota_reason}")

if(Hdf5C_FOUND AND NOT TARGET Hdf5C::Hdf5C)
  add_library(Hdf5C::Hdf5C UNKNOWN IMPORTED)
  set_target_properties(Hdf5C::Hdf5C PROPERTIES
    IMPORTED_LOCATION "${Hdf5C_LIBRARY_${ROTA_HDF5}}"
    INTERFACE_INCLUDE_DIRECTORIES "${Hdf5C_INCLUDE_DIR}")
  if(Hdf5C_FLAVOUR STREQUAL "parallel")
    find_package(MPI REQUIRED COMPONENTS CXX)
    set_target_properties(Hdf5C::Hdf5C PROPERTIES INTERFACE_LINK_LIBRARIES MPI::MPI_CXX)
  endif()
endif()
