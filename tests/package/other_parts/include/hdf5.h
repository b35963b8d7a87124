/* Stands in for the header of an HDF5 without MPI. */
