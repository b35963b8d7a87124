# Finds HDF5's C library as Hdf5C::Hdf5C, with MPI or without: rota makes no parallel call, so either will do.
#   ROTA_HDF5   parallel, serial, or any (the default): parallel where both are there. A program is to have one HDF5;
#               those of MPI programs are mostly parallel, those that Python brings are serial.
#   HDF5_ROOT   where it is, if not in a usual place
# Sets Hdf5C_FLAVOUR to parallel or serial.

if(NOT DEFINED ROTA_HDF5)
  set(ROTA_HDF5 any CACHE STRING "Which HDF5 to build with: parallel, serial or any")
  set_property(CACHE ROTA_HDF5 PROPERTY STRINGS any parallel serial)
endif()
if(NOT ROTA_HDF5 MATCHES "^(any|parallel|serial)$")
  message(FATAL_ERROR "ROTA_HDF5 is \"${ROTA_HDF5}\": it must be parallel, serial or any")
endif()

# Folders that are named for what they hold come before those that may hold either.
set(_rota_folders_parallel hdf5/openmpi hdf5/mpich openmpi-x86_64 mpich-x86_64)
set(_rota_folders_serial hdf5/serial)
set(_rota_folders_any ${_rota_folders_parallel} ${_rota_folders_serial})
set(_rota_folders ${_rota_folders_${ROTA_HDF5}})
list(TRANSFORM _rota_folders PREPEND include/ OUTPUT_VARIABLE _rota_include_folders)

# Named by what was asked for, so that another answer is looked for anew.
find_path(Hdf5C_INCLUDE_DIR_${ROTA_HDF5} hdf5.h HINTS ${HDF5_ROOT} ENV HDF5_ROOT
  PATH_SUFFIXES ${_rota_include_folders} include ${_rota_folders})
set(Hdf5C_INCLUDE_DIR ${Hdf5C_INCLUDE_DIR_${ROTA_HDF5}})
string(REGEX MATCH "openmpi|mpich|serial" _rota_build "${Hdf5C_INCLUDE_DIR}")
find_library(Hdf5C_LIBRARY_${ROTA_HDF5} NAMES hdf5_${_rota_build} hdf5 HINTS ${HDF5_ROOT} ENV HDF5_ROOT
  PATH_SUFFIXES lib hdf5/${_rota_build} ${_rota_build}/lib)
mark_as_advanced(Hdf5C_INCLUDE_DIR_${ROTA_HDF5} Hdf5C_LIBRARY_${ROTA_HDF5})

set(Hdf5C_FLAVOUR "")
if(Hdf5C_INCLUDE_DIR)
  set(Hdf5C_FLAVOUR serial)
  file(GLOB _rota_configs ${Hdf5C_INCLUDE_DIR}/H5pubconf*.h)
  foreach(_rota_config IN LISTS _rota_configs)
    file(STRINGS ${_rota_config} _rota_line REGEX "^#define H5_HAVE_PARALLEL 1")
    if(_rota_line)
      set(Hdf5C_FLAVOUR parallel)
    endif()
  endforeach()
endif()

set(_rota_packages_any "libhdf5-openmpi-dev or libhdf5-dev")
set(_rota_packages_parallel libhdf5-openmpi-dev)
set(_rota_packages_serial libhdf5-dev)
set(_rota_way_out "install ${_rota_packages_${ROTA_HDF5}}, or set HDF5_ROOT")
set(Hdf5C_FITS FALSE)
if(NOT Hdf5C_INCLUDE_DIR)
  set(_rota_reason "no hdf5.h was found: ${_rota_way_out}")
elseif(ROTA_HDF5 STREQUAL "any" OR ROTA_HDF5 STREQUAL Hdf5C_FLAVOUR)
  set(Hdf5C_FITS TRUE)
  set(_rota_reason "no library was found for ${Hdf5C_INCLUDE_DIR}: ${_rota_way_out}")
else()
  set(_rota_reason
    "the HDF5 in ${Hdf5C_INCLUDE_DIR} is ${Hdf5C_FLAVOUR}, and ROTA_HDF5 is ${ROTA_HDF5}: ${_rota_way_out}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Hdf5C
  REQUIRED_VARS Hdf5C_LIBRARY_${ROTA_HDF5} Hdf5C_INCLUDE_DIR Hdf5C_FITS
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
