#pragma once

// A checkpoint directory on a file system of one's own: for tests that make its calls fail.

#include "files/file.hpp"
#include "rota/checkpoint_directory.hpp"

namespace rota {

class CheckpointDirectoryAccess {
 public:
  /// **Collective.** As the constructor; `system` must outlive what is made of it.
  static CheckpointDirectory open(const Communicator& comm, std::filesystem::path path,
                                  const CheckpointPolicy& policy, const internal::FileSystem& system);
};

}  // namespace rota
