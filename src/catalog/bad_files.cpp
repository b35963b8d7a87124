#include "catalog/bad_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "files/descriptor.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {

namespace {

/// What says that a file is bad, for other ranks.
struct BadFile {
  std::uint64_t number = 0;
  ErrorCode code = ErrorCode::io;
  std::string what = {};

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(number, code, what);
  }
};

// An error that says that there are none does not tell it by its code.
bool has_descriptors() noexcept { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get() >= 0; }

}  // namespace

bool may_be_bad(const OpenContext& context, const Location& location, FileWork work,
                const Error& error) noexcept {
  if (context.options.max_bad_files == 0) return false;
  if (error.code() == ErrorCode::io) return !location.is_stored() && has_descriptors();
  return error.code() == ErrorCode::corrupt ||
         (error.code() == ErrorCode::not_found && work == FileWork::opening);
}

std::optional<FileList> BadFiles::pass_over(const FileList& files) {
  if (context_.options.max_bad_files == 0) return std::nullopt;  // on all ranks
  std::vector<BadFile> bad;
  {
    const MutexLock lock(mutex_);
    for (const auto& [i, error] : found_)
      bad.push_back({.number = i, .code = error.code(), .what = error.what()});
  }
  std::vector<BadFile> all;  // in order, as ranks have files in theirs
  for (const std::string& of_rank : ranks::all_gather(context_.nodes.all(), "open files", to_blob(bad)))
    std::ranges::move(from_blob<std::vector<BadFile>>(of_rank), std::back_inserter(all));
  if (all.empty()) return std::nullopt;
  const int most = context_.options.max_bad_files - files.passed_over();
  if (std::cmp_greater(all.size(), most) || all.size() == files.size()) {
    throw failure(all[0].code,
                  "{}; {} of {} files are missing, damaged or unreadable{}, and max_bad_files allows {}{}",
                  all[0].what, all.size(), files.size(),
                  files.passed_over() > 0 ? fmt::format(", and {} were before", files.passed_over()) : "",
                  context_.options.max_bad_files, all.size() == files.size() ? ", if one is left" : "");
  }
  std::vector<bool> is_good(files.size(), true);
  for (const BadFile& one : all) is_good[one.number] = false;
  constexpr std::size_t kMostTold = 100;
  const std::size_t told = context_.nodes.all().rank() == 0 ? std::min(all.size(), kMostTold) : 0;
  for (std::size_t i = 0; i < told; ++i) tell(fmt::format("passed over (max_bad_files): {}", all[i].what));
  if (told > 0 && told < all.size())
    tell(fmt::format("passed over (max_bad_files): {} files more", all.size() - told));
  FileList good = files.those(is_good);
  good.passed_over_ += static_cast<int>(all.size());
  return good;
}

}  // namespace rota::internal
