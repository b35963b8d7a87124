#pragma once

// Files that are missing, damaged or unreadable, of which CatalogOptions::max_bad_files may be passed over.

#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "catalog/files.hpp"
#include "core/mutex.hpp"
#include "rota/error.hpp"

namespace rota::internal {

/// What was done with a file that failed.
enum class FileWork : std::uint8_t {
  opening,  ///< it may be missing
  reading,  ///< what it does not have is no damage
};

/// Whether files of `location` may be passed over for `error`: no store that cannot be reached, and no want
/// of descriptors.
[[nodiscard]] bool may_be_bad(const OpenContext& context, const Location& location, FileWork work,
                              const Error& error) noexcept;

/// Notes bad files. Any thread.
class BadFiles {
 public:
  /// Both must outlive it.
  BadFiles(const OpenContext& context, const Location& location) noexcept
      : context_(context), location_(location) {}

  /// Does `work` with file i, and notes what it throws, if that may be passed over. Whether it threw nothing.
  template <typename Work>
  bool try_with(std::size_t i, FileWork kind, Work&& work) {
    try {
      work();
      return true;
    } catch (const Error& error) {
      if (!may_be_bad(context_, location_, kind, error)) throw;
      const MutexLock lock(mutex_);
      found_.emplace(i, error);
      return false;
    }
  }
  /// `files` without those that ranks have noted, which rank 0 tells of; nullopt if there are none.
  /// **Collective.** Throws on all ranks the error of the first, where they are too many, or all.
  [[nodiscard]] std::optional<FileList> pass_over(const FileList& files);

 private:
  const OpenContext& context_;
  const Location& location_;
  Mutex mutex_;
  std::map<std::size_t, Error> found_ ROTA_GUARDED_BY(mutex_);
};

/// **Collective** over the context of `files`. What `look` returns on rank 0 for the first file, which is
/// open and as it was listed, or the first that is not bad, where those before may be passed over.
template <typename Look>
auto look_into_first(const FileList& files, std::string_view phase, const Look& look) {
  return made_on_first_rank(files.context(), phase, [&] {
    const auto most = static_cast<std::size_t>(files.context().options.max_bad_files);
    for (std::size_t i = 0;; ++i) {
      FileWork work = FileWork::opening;
      try {
        DatasetFile file = files.open_unchanged(i);
        work = FileWork::reading;
        return look(file);
      } catch (const Error& error) {
        const bool is_last = i >= most || i + 1 >= files.size();
        if (is_last || !may_be_bad(files.context(), files.location(), work, error)) throw;
      }
    }
  });
}

}  // namespace rota::internal
