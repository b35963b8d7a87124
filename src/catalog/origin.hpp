#pragma once

// How the files of a catalog were found, so that they can be found again.

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/files.hpp"

namespace rota::internal {

/// What a catalog was made of.
struct Origin {
  enum class Kind : std::uint8_t { path, manifest };

  Kind kind = Kind::path;
  std::string path;  ///< absolute, for another process

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(kind, path);
  }
};

/// **Collective** over `context`. Lists the files of `origin`; `shown` is its path as the user wrote it.
FileList list_origin(const std::shared_ptr<const OpenContext>& context, const Origin& origin,
                     ChangeDetection change_detection, const std::string& shown);

}  // namespace rota::internal
