# Finds the parallel (MPI) flavour of HDF5's C library as ParallelHDF5::ParallelHDF5.
# Set HDF5_ROOT, or CMAKE_PREFIX_PATH, where it is not in a usual place.

find_path(ParallelHDF5_INCLUDE_DIR hdf5.h
  HINTS ${HDF5_ROOT} ENV HDF5_ROOT
  PATH_SUFFIXES include hdf5/openmpi include/hdf5/openmpi hdf5/mpich include/hdf5/mpich
    hdf5/serial include/hdf5/serial)
find_library(ParallelHDF5_LIBRARY NAMES hdf5_openmpi hdf5_mpich hdf5
  HINTS ${HDF5_ROOT} ENV HDF5_ROOT
  PATH_SUFFIXES lib hdf5/openmpi hdf5/mpich)

set(ParallelHDF5_PARALLEL FALSE)
if(ParallelHDF5_INCLUDE_DIR)
  file(GLOB _rota_hdf5_configs ${ParallelHDF5_INCLUDE_DIR}/H5pubconf*.h)
  foreach(_rota_hdf5_config IN LISTS _rota_hdf5_configs)
    file(STRINGS ${_rota_hdf5_config} _rota_hdf5_line REGEX "^#define H5_HAVE_PARALLEL 1")
    if(_rota_hdf5_line)
      set(ParallelHDF5_PARALLEL TRUE)
    endif()
  endforeach()
endif()

if(ParallelHDF5_PARALLEL)
  set(_rota_hdf5_reason "")
elseif(ParallelHDF5_INCLUDE_DIR)
  set(_rota_hdf5_reason
    "only a serial HDF5 is in ${ParallelHDF5_INCLUDE_DIR}, and rota needs the parallel flavour: install libhdf5-openmpi-dev, or set HDF5_ROOT to an HDF5 built with --enable-parallel")
else()
  set(_rota_hdf5_reason
    "no hdf5.h was found: install libhdf5-openmpi-dev, or set HDF5_ROOT to an HDF5 built with --enable-parallel")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(ParallelHDF5
  REQUIRED_VARS ParallelHDF5_LIBRARY ParallelHDF5_INCLUDE_DIR ParallelHDF5_PARALLEL
  REASON_FAILURE_MESSAGE "${_rota_hdf5_reason}")
mark_as_advanced(ParallelHDF5_INCLUDE_DIR ParallelHDF5_LIBRARY)

if(ParallelHDF5_FOUND AND NOT TARGET ParallelHDF5::ParallelHDF5)
  find_package(MPI REQUIRED COMPONENTS CXX)
  add_library(ParallelHDF5::ParallelHDF5 UNKNOWN IMPORTED)
  set_target_properties(ParallelHDF5::ParallelHDF5 PROPERTIES
    IMPORTED_LOCATION "${ParallelHDF5_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${ParallelHDF5_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES MPI::MPI_CXX)
endif()
