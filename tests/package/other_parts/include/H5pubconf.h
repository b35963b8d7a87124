/* #undef H5_HAVE_PARALLEL */
