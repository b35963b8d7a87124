# Installs BUILD to PREFIX, afresh, and compares the headers there with those in SOURCE.

file(REMOVE_RECURSE ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)

file(GLOB expected RELATIVE ${SOURCE}/include ${SOURCE}/include/rota/*.hpp)
file(GLOB_RECURSE installed RELATIVE ${PREFIX}/include ${PREFIX}/include/*)
if(NOT MPI)
  list(REMOVE_ITEM expected rota/mpi.hpp)
endif()
if(NOT installed STREQUAL expected)
  message(FATAL_ERROR "installed: ${installed}\nexpected: ${expected}")
endif()
