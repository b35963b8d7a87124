# Looks for an HDF5 of one kind where HDF5_ROOT leads to one of the other, and for one of no kind; expects the reason
# and the way out.

if(INNER)
  list(APPEND CMAKE_MODULE_PATH ${MODULES})
  set(HDF5_ROOT ${CMAKE_CURRENT_LIST_DIR})
  find_package(Hdf5C REQUIRED)
  return()
endif()

function(expect_refusal kind)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -D INNER=ON -D ROTA_HDF5=${kind} -D MODULES=${MODULES} -P ${CMAKE_CURRENT_LIST_FILE}
    RESULT_VARIABLE code ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  foreach(expected IN LISTS ARGN)
    string(FIND "${output}" "${expected}" found)
    if(code EQUAL 0 OR found EQUAL -1)
      message(SEND_ERROR "expected failure with `${expected}`, got exit code ${code} and\n${output}")
    endif()
  endforeach()
endfunction()

expect_refusal(parallel "the HDF5 in ${CMAKE_CURRENT_LIST_DIR}/include is serial, and ROTA_HDF5 is parallel"
  "install libhdf5-openmpi-dev" "set HDF5_ROOT")
expect_refusal(concurrent "ROTA_HDF5 is \"concurrent\"" "serial, parallel or any")
