# zlib's reader of zip files: target Minizip::Minizip.
find_path(Minizip_INCLUDE_DIR minizip/unzip.h)
find_library(Minizip_LIBRARY minizip)
mark_as_advanced(Minizip_INCLUDE_DIR Minizip_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Minizip
  REASON_FAILURE_MESSAGE "on Debian, it is in libminizip-dev"
  REQUIRED_VARS Minizip_LIBRARY Minizip_INCLUDE_DIR)
if(Minizip_FOUND AND NOT TARGET Minizip::Minizip)
  add_library(Minizip::Minizip UNKNOWN IMPORTED)
  set_target_properties(Minizip::Minizip PROPERTIES
    IMPORTED_LOCATION "${Minizip_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${Minizip_INCLUDE_DIR}")
endif()
