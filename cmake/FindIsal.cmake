# Intel's storage library, which has CRC32C at the speed of memory.
include(${CMAKE_CURRENT_LIST_DIR}/RotaFindLibrary.cmake)
rota_find_library(Isal isa-l/crc.h isal)
