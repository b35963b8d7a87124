#pragma once

// Opens a checkpoint in the steps of FORMAT.md, some of which ranks can divide among themselves.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "commit_page.hpp"
#include "contents.hpp"
#include "extents.hpp"
#include "file_system.hpp"
#include "rota/checkpoint.hpp"
#include "rota/world.hpp"

namespace rota {

struct Checkpoint::Impl {
  CheckpointInfo info;
  checkpoint::File file;
  checkpoint::Contents contents;
  std::vector<BlobInfo> blobs;
};

/// One opening of one file: all steps, in this order. None of them is collective. *One thread.*
class CheckpointReader {
 public:
  /// Checks commit page, size, extent table (of which it keeps nothing: its length is only what the page
  /// says) and contents. Throws Error{not_found}, Error{io}, Error{corrupt}, Error{unsupported}.
  CheckpointReader(const checkpoint::FileSystem& system, const std::filesystem::path& path);

  /// Checks this rank's share of the extents. Throws Error{io}, Error{corrupt} naming the damaged bytes.
  void verify_extents(World world) const;
  /// This rank's part of each tensor's row digest; the sums over ranks are what the file must say.
  [[nodiscard]] std::vector<std::uint64_t> row_digests(World world) const;
  void require_row_digests(std::span<const std::uint64_t> sums) const;

  [[nodiscard]] const checkpoint::CommitPage& page() const noexcept { return page_; }
  [[nodiscard]] Checkpoint finish() &&;

 private:
  void verify_table() const;
  void read_contents();
  void verify_extent(const checkpoint::Extent& extent, std::span<std::byte> buffer) const;

  std::unique_ptr<Checkpoint::Impl> impl_;
  checkpoint::CommitPage page_;
};

namespace checkpoint {

/// The commit page of `file`, in agreement with the file's size. Throws as CheckpointReader.
[[nodiscard]] CommitPage read_page(const File& file);

[[nodiscard]] CheckpointInfo to_info(const CommitPage& page, const std::filesystem::path& path);

}  // namespace checkpoint
}  // namespace rota
