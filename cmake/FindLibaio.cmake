# Linux's asynchronous I/O.
include(${CMAKE_CURRENT_LIST_DIR}/RotaFindLibrary.cmake)
rota_find_library(Libaio libaio.h aio)
