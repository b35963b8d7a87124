#pragma once

// What a path is that a user writes. It is decided here, for all of rota.

#include <filesystem>
#include <string>
#include <string_view>

namespace rota::internal {

/// "s3" of "s3://bucket/x"; empty for a path of a file system.
std::string_view scheme_of(std::string_view path) noexcept;

/// The path that is meant: of a file system, or "scheme://...". What is there is meant, whatever its name
/// looks like. Else "file:///x" and "file:/x" are /x, and "~/x" is in the home directory. Throws
/// Error{invalid_argument} for a file of another host, for "~user/x", and for "s3:/x", which pathlib makes of
/// a URL.
std::string plain_path(std::string path);

/// The same, which may be of a file system alone. Throws Error{unsupported} for a URL, with that `remedy`.
std::filesystem::path path_on_disk(
    const std::filesystem::path& path,
    std::string_view remedy = "only datasets are read from a store; copy it to a disk first");

}  // namespace rota::internal
