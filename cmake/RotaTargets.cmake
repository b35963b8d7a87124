# How rota's targets are built: warnings and sanitizers for our own code, never for those who link it.

add_library(rota_build_flags INTERFACE)
target_compile_options(rota_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(ROTA_SANITIZE)
  # Not vptr: its check needs a file descriptor, which tests of their exhaustion do not leave it.
  target_compile_options(rota_build_flags INTERFACE -fsanitize=${ROTA_SANITIZE} -fno-sanitize=vptr
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(rota_build_flags INTERFACE -fsanitize=${ROTA_SANITIZE})
endif()

# With clang-tidy (preset `tidy`), objects are also out of date where the checks have changed.
foreach(checks IN ITEMS .clang-tidy tests/.clang-tidy)
  if(CMAKE_CXX_CLANG_TIDY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${checks})
    file(SHA256 ${PROJECT_SOURCE_DIR}/${checks} digest)
    target_compile_definitions(rota_build_flags INTERFACE ROTA_CHECKED_${digest})
  endif()
endforeach()

# With ROTA_UNITY_BUILD, the sources of a folder are compiled as one, which takes half as long: so no two of them may have
# a local name in common.
option(ROTA_UNITY_BUILD "Compile the sources of each folder of the libraries together" OFF)
function(rota_compile_folders_whole target)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP "${target}/${folder}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# rota_library(NAME SOURCES ... HEADERS ...): a library of the package, `rota::NAME` to its users; HEADERS are public,
# relative to include/rota.
function(rota_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS")
  set(target rota_${name})
  if(name STREQUAL "rota")
    set(target rota)
  endif()
  add_library(${target} ${arg_SOURCES})
  add_library(rota::${name} ALIAS ${target})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/rota/)
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:rota_build_flags>)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  if(ROTA_UNITY_BUILD)
    rota_compile_folders_whole(${target})
  endif()
  set_property(GLOBAL APPEND PROPERTY ROTA_LIBRARIES ${target})
endfunction()

# rota_program(NAME SOURCES ... LIBRARIES ...): an executable of ours in bin/.
function(rota_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  add_executable(${name} ${arg_SOURCES})
  if(ROTA_SANITIZE MATCHES "address")
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/sanitizers/keep_loaded.cpp)
  endif()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} rota_build_flags)
endfunction()
