#include "catalog/generated.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "catalog/discovery.hpp"
#include "catalog/packing.hpp"
#include "catalog/pattern_listing.hpp"
#include "catalog/recognition.hpp"
#include "catalog/validation.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

constexpr std::int64_t kMostNumber = 1'000'000'000'000'000'000;

/// What rank 0 finds out, for all.
struct Generated {
  std::string directory;
  NameSeries series;
  std::int64_t sample = 0;
  std::uint64_t seed = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(directory, series, sample, seed);
  }
};

// The path of a directory whose names are to be recognised.
std::string require_directory(const std::string& path) {
  struct stat status {};
  if (path.empty()) throw Error(ErrorCode::invalid_argument, "make a catalog of a pattern: it is empty");
  if (::stat(path.c_str(), &status) != 0) throw system_error("open", path, errno);
  if (!S_ISDIR(status.st_mode)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make a catalog of the pattern {}: it has no {{index}}, and is no directory in "
                            "which to look for one; mend it",
                            path));
  }
  return path.ends_with('/') ? path : path + '/';
}

Generated generate(const std::string& written, const PatternOptions& options) {
  const NamePattern pattern = NamePattern::parse(written);
  const bool is_directory = pattern.parts().size() == 1;
  if (!is_directory) pattern.require_names();
  const AskedDirectory directory(is_directory ? require_directory(pattern.parts()[0].text)
                                              : pattern.directory());
  const KnownNames known = is_directory
                               ? recognise(directory, options)
                               : KnownNames{.pattern = pattern.below_directory(), .options = options};
  Generated generated{.directory = directory.path(), .series = discover(directory, known)};
  generated.sample = sample_size(generated.series.files, options.confidence, options.missing_fraction);
  generated.seed = options.seed;
  return generated;
}

Key key_of(const Generated& generated) {
  const Fingerprint digest = FingerprintBuilder()
                                 .add(static_cast<std::int64_t>(generated.seed))
                                 .add(generated.series.pattern.text())
                                 .finish();
  return {.low = digest.low, .high = digest.high};
}

}  // namespace

std::string_view to_string(FolderLayout layout) noexcept {
  switch (layout) {
    case FolderLayout::round_robin:
      return "round_robin";
    case FolderLayout::blocks:
      return "blocks";
    case FolderLayout::restart:
      return "restart";
    case FolderLayout::automatic:
      break;
  }
  return "automatic";
}

void PatternOptions::validate() const {
  const auto require = [](bool is_right, std::string_view name, auto value, std::string_view range) {
    if (is_right) return;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("make a catalog of a pattern: {} is {}; use {}", name, value, range));
  };
  const auto require_number = [&](std::string_view name, std::int64_t value, std::int64_t least) {
    require(value >= least && value <= kMostNumber, name, value, fmt::format("{} to 10^18", least));
  };
  require_number("files", files, 0);
  require_number("first_index", first_index, -1);
  require_number("folders", folders, 0);
  require_number("first_folder", first_folder, -1);
  require(confidence >= 0 && confidence <= 1, "confidence", confidence, "0 to 1");
  require(missing_fraction > 0 && missing_fraction < 1, "missing_fraction", missing_fraction,
          "more than 0 and less than 1");
}

FileList generate_files(const std::shared_ptr<const Crew>& crew, const std::string& pattern,
                        const PatternOptions& options) {
  mpi::together(crew->nodes.all(), "make a catalog of a pattern", [&] { options.validate(); });
  const Generated found =
      made_on_first_rank(*crew, "make a catalog of a pattern", [&] { return generate(pattern, options); });
  FileList files(crew, found.directory, std::make_shared<PatternListing>(found.series),
                 found.series.fingerprint());
  const FileSample sample(found.series.files, found.sample, key_of(found));
  validate_files(*crew, found.series, sample, files.root().get(), found.directory);
  return files;
}

}  // namespace rota
