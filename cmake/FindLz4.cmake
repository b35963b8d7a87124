# LZ4, of HDF5's filter 32004.
include(${CMAKE_CURRENT_LIST_DIR}/RotaFindLibrary.cmake)
rota_find_library(Lz4 lz4.h lz4)
