#pragma once

// What names of files say.

#include <string_view>

namespace rota::internal {

/// Whether a file or directory of this last name is none of a dataset's: it is hidden, or programs left it
/// that list, edit, copy or write files.
[[nodiscard]] bool is_leftover(std::string_view name) noexcept;

/// Whether any part of a path is.
[[nodiscard]] bool has_leftover(std::string_view path) noexcept;

/// What names of shards begin with that rota writes, and that of a file that stands beside them, with their
/// ending, as long as some lack.
inline constexpr std::string_view kShardStem = "shard-";
inline constexpr std::string_view kUnfinished = "unfinished";

/// Whether `name` ends in `ending`, in capitals or not.
[[nodiscard]] bool ends_as(std::string_view name, std::string_view ending) noexcept;
/// What of `path` ends as its format does: of a web server's URL, what stands before the query.
[[nodiscard]] std::string_view without_query(std::string_view path) noexcept;

/// Throws Error{invalid_argument} for what is no format's name; `attempt` is what is tried ("open data").
/// src/formats has the names, and defines it.
void require_format(std::string_view attempt, std::string_view format);

}  // namespace rota::internal
