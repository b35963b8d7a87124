# LZF, of h5py's filter 32000.
include(${CMAKE_CURRENT_LIST_DIR}/RotaFindLibrary.cmake)
rota_find_library(Lzf liblzf/lzf.h lzf)
