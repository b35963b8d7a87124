# What rota is built on. Shared by the build and by the installed package (RotaConfig.cmake).

include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(MPI COMPONENTS CXX)
find_dependency(ParallelHDF5)
find_dependency(ZLIB)
find_dependency(zstd)
find_dependency(XxHash)
find_dependency(fmt)
find_dependency(cereal)
