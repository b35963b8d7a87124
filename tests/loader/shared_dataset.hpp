#pragma once

// A dataset of compressed lines that say which they are, opened as if ranks were on several nodes.

#include <zstd.h>

#include "catalog/files.hpp"
#include "formats/formats.hpp"
#include "mpi/collectives.hpp"
#include "mpi_main.hpp"
#include "test.hpp"

namespace rota::test {

/// Line i of all, of a length of its own.
inline std::string shared_line(std::int64_t i) {
  return fmt::format("{} {}", i, std::string(static_cast<std::size_t>(i * 37 % 90), 'x'));
}

/// `files` files of lines, in rank 0's directory, there until all ranks have ended it.
class SharedDataset {
 public:
  explicit SharedDataset(int files) : files_(files) {
    if (comm().rank() == 0) {
      directory_.emplace();
      for (int i = 0; i < files; ++i) directory_->write(fmt::format("{:03}.jsonl.zst", i), next_file(i));
    }
    path_ = mpi::broadcast(comm(), directory_ ? directory_->path().string() : std::string());
  }
  ~SharedDataset() { mpi::agree(comm(), "wait", nullptr); }
  SharedDataset(const SharedDataset&) = delete;
  SharedDataset& operator=(const SharedDataset&) = delete;

  static const mpi::Communicator& comm() { return mpi_session().comm(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::int64_t files() const noexcept { return files_; }

  /// **Collective.** As opened by ranks that are where `where` says.
  [[nodiscard]] std::shared_ptr<const Source> open(const mpi::Nodes::Pretence& where,
                                                   const CatalogOptions& options = {}) const {
    auto context = std::make_shared<OpenContext>(comm(), options);
    context->nodes = mpi::Nodes(comm(), where);
    return make_lines_source(FileList::list(context, ChangeDetection::by_size, path_));
  }

 private:
  // From 20 to 59 lines.
  std::string next_file(int i) {
    std::string raw;
    for (int k = 0; k < 20 + i * 17 % 40; ++k) raw += shared_line(lines_++) + "\n";
    std::string packed(ZSTD_compressBound(raw.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), 1));
    return packed;
  }

  std::int64_t files_;
  std::int64_t lines_ = 0;
  std::optional<TemporaryDirectory> directory_;
  std::string path_;
};

inline bool says_who_it_is(const Batch& batch) {
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    if (batch.kinds()[static_cast<std::size_t>(i)] == SlotKind::skipped) continue;
    const auto bytes = batch.bytes(0, i);
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text != shared_line(batch.ids()[static_cast<std::size_t>(i)].value)) return false;
  }
  return true;
}

/// Files in memory that this process has mapped. The kernel lists them in parts, and what is unmapped and
/// mapped meanwhile may be in two of these: so the least of some lists counts.
inline std::int64_t mapped_files() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    std::int64_t count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      count += line.find("/memfd:rota-file") == std::string::npos ? 0 : 1;
    }
    least = std::min(least, count);
  }
  return least;
}

}  // namespace rota::test
