# zlib's reader of zip files.
include(${CMAKE_CURRENT_LIST_DIR}/RotaFindLibrary.cmake)
rota_find_library(Minizip minizip/unzip.h minizip)
