# ROTA_BUNDLE: the Python module for machines without rota's libraries, as in a wheel. It has them inside, where Debian has
# them as archives, and hides their symbols: no other HDF5 or OpenSSL of a process meets them. For x86-64 Linux with glibc.
#
# Included before the libraries are looked for. rota_bundle(MODULE) links one that has `python/src/bundle.cpp`.

set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
find_library(Libaio_LIBRARY libaio.so)  # stays a file of its own, as the LGPL would have it

# What archives need of others. Those of libcurl that HTTP/1.1 over TLS does not call are left out: bundle.cpp.
function(rota_bundle module)
  foreach(library IN ITEMS zstd pugixml)
    find_library(ROTA_ARCHIVE_${library} ${library} REQUIRED)
  endforeach()
  set_target_properties(zstd::libzstd_shared PROPERTIES IMPORTED_LOCATION_NONE ${ROTA_ARCHIVE_zstd})
  set_target_properties(pugixml::shared PROPERTIES IMPORTED_LOCATION_NONE ${ROTA_ARCHIVE_pugixml})
  set_property(TARGET fmt::fmt APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1)
  foreach(library IN ITEMS sz aec lzma bz2)
    find_library(ROTA_ARCHIVE_${library} ${library} REQUIRED)
  endforeach()
  set_property(TARGET CURL::libcurl APPEND PROPERTY INTERFACE_LINK_LIBRARIES OpenSSL::SSL zstd::libzstd_shared ZLIB::ZLIB)
  set_property(TARGET Hdf5C::Hdf5C APPEND PROPERTY INTERFACE_LINK_LIBRARIES
    CURL::libcurl ${ROTA_ARCHIVE_sz} ${ROTA_ARCHIVE_aec} ZLIB::ZLIB)
  set_property(TARGET LibArchive::LibArchive APPEND PROPERTY INTERFACE_LINK_LIBRARIES
    ${ROTA_ARCHIVE_lzma} ${ROTA_ARCHIVE_bz2} zstd::libzstd_shared Lz4::Lz4 ZLIB::ZLIB)
  set_property(TARGET Minizip::Minizip APPEND PROPERTY INTERFACE_LINK_LIBRARIES ZLIB::ZLIB)

  get_target_property(curl CURL::libcurl IMPORTED_LOCATION)
  execute_process(COMMAND ${CMAKE_NM} --undefined-only --format=just-symbols ${curl} OUTPUT_VARIABLE symbols
    ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "\n(Brotli|GSS_|RTMP_|ber_|gss_|idn2_|ldap_|libssh2_|nghttp2_|psl_)[A-Za-z0-9_]+" left_out "\n${symbols}")
  list(FILTER left_out EXCLUDE REGEX "nghttp2_version$")
  list(REMOVE_DUPLICATES left_out)
  list(JOIN left_out " = rota_left_out;" script)
  file(WRITE ${PROJECT_BINARY_DIR}/bundle.ld "${script} = rota_left_out;\nVERSION { { global: PyInit_*; local: *; }; }\n")

  target_sources(${module} PRIVATE ${PROJECT_SOURCE_DIR}/python/src/bundle.cpp)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/python/src/bundle.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # libgcc is not linked in: that of Debian 12 asks for glibc 2.35, and every system has its own.
  target_link_options(${module} PRIVATE ${PROJECT_BINARY_DIR}/bundle.ld -s -static-libstdc++ LINKER:--as-needed,--gc-sections)
endfunction()
