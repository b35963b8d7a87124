# Fast hashes.
include(${CMAKE_CURRENT_LIST_DIR}/RotaFindLibrary.cmake)
rota_find_library(XxHash xxhash.h xxhash)
