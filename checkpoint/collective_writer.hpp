#pragma once

// Writes all ranks' parts of a file through MPI-IO, for file systems on which ranks must not write one file
// by calls of their own. ROMIO alone is trusted with it.

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "extents.hpp"

namespace rota::checkpoint {

/// Throws Error{unsupported}, and says what to do, unless MPI runs with MPI_THREAD_MULTIPLE and its MPI-IO is
/// ROMIO: the OMPIO of Open MPI up to 4.1.6 silently corrupts collective writes (open-mpi/ompi#12718). Where
/// Open MPI has not been told which to use, and has not opened a file yet, it is told here.
void require_romio();

/// One writing of one file, in windows that all ranks write together. MPI-IO is called directly, and not by
/// way of parallel HDF5, which has no way back from an error; the bytes are the same.
class CollectiveWrite {
 public:
  /// Prepares it, on this rank alone. The bytes that `slabs` name must live until `run` is over; `end` is
  /// where the data of all ranks ends.
  CollectiveWrite(std::string path, std::span<const Slab> slabs, std::uint64_t end);
  ~CollectiveWrite();
  CollectiveWrite(const CollectiveWrite&) = delete;
  CollectiveWrite& operator=(const CollectiveWrite&) = delete;

  /// **Collective** over `comm`, and blocks in MPI. All ranks go through all windows, whatever fails on one
  /// of them. Throws Error{io}.
  void run(MPI_Comm comm);

 private:
  struct Window;
  std::string path_;
  std::vector<Window> windows_;
  MPI_Datatype view_ = MPI_DATATYPE_NULL;
  MPI_Info hints_ = MPI_INFO_NULL;
};

}  // namespace rota::checkpoint
