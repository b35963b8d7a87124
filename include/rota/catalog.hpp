#pragma once

// What a dataset is known by. Next: source.hpp.

#include <string_view>

namespace rota {

/// What the files of a dataset are known by, in its fingerprint and when they are read.
enum class Evidence {
  /// Names and sizes: each file is asked for its size when it is listed, and one that has changed it since
  /// is an error.
  sizes,
  /// Names alone: listing asks the files nothing, which is several times faster. A file is asked for its size
  /// when it is read; that it was cut short or has grown goes unnoticed.
  names,
};

std::string_view to_string(Evidence evidence) noexcept;

}  // namespace rota
