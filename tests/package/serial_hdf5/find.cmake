# Looks for parallel HDF5 where only a serial one is installed, and expects the reason and the way out.

if(INNER)
  list(APPEND CMAKE_MODULE_PATH ${MODULES})
  set(HDF5_ROOT ${CMAKE_CURRENT_LIST_DIR})
  find_package(ParallelHDF5 REQUIRED)
  return()
endif()

execute_process(
  COMMAND ${CMAKE_COMMAND} -D INNER=ON -D MODULES=${MODULES} -P ${CMAKE_CURRENT_LIST_FILE}
  RESULT_VARIABLE code ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
foreach(expected "only a serial HDF5 is in ${CMAKE_CURRENT_LIST_DIR}/include" "install libhdf5-openmpi-dev" "set HDF5_ROOT")
  string(FIND "${output}" "${expected}" found)
  if(code EQUAL 0 OR found EQUAL -1)
    message(SEND_ERROR "expected failure with `${expected}`, got exit code ${code} and\n${output}")
  endif()
endforeach()
