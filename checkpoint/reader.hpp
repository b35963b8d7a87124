#pragma once

// Opens a checkpoint in the steps of FORMAT.md, some of which ranks can divide among themselves.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "commit_page.hpp"
#include "contents.hpp"
#include "extents.hpp"
#include "files/file.hpp"
#include "rota/checkpoint.hpp"
#include "rota/communicator.hpp"
#include "rota/verify.hpp"
#include "rota/world.hpp"

namespace rota {

struct Checkpoint::Impl {
  CheckpointInfo info;
  internal::File file;
  checkpoint::Contents contents;
  std::vector<BlobInfo> blobs;
};

/// One opening of one file: all steps, in this order. *One thread.*
class CheckpointReader {
 public:
  /// **Collective.** The checkpoint `serial` in `path`, as a whole: ranks verify its extents together. Throws
  /// on all ranks what the steps throw on one, and Error{io} where ranks see different files.
  [[nodiscard]] static CheckpointReader open(const Communicator& ranks, const internal::FileSystem& system,
                                             const std::filesystem::path& path, std::int64_t serial);

  /// Checks commit page, size, extent table (of which it keeps nothing: its length is only what the page
  /// says) and contents. Throws Error{not_found}, Error{io}, Error{corrupt}, Error{unsupported}.
  CheckpointReader(const internal::FileSystem& system, const std::filesystem::path& path);

  /// Checks this rank's share of the extents. Returns its part of each tensor's row digest; the sums over
  /// ranks are what the file must say. Throws Error{io}, Error{corrupt} naming the damaged bytes.
  [[nodiscard]] std::vector<std::uint64_t> verify_extents(World world) const;
  void require_row_digests(std::span<const std::uint64_t> sums) const;

  [[nodiscard]] const checkpoint::CommitPage& page() const noexcept { return page_; }
  [[nodiscard]] Checkpoint finish() &&;

 private:
  std::unique_ptr<Checkpoint::Impl> impl_;
  checkpoint::CommitPage page_;
};

namespace checkpoint {

// The steps, each alone. They throw Error{io}, and Error{corrupt} headed by the path of the file.

/// Throws Error{corrupt}: "verify <path>: <why>".
[[noreturn]] void reject(const internal::File& file, std::string_view why);

/// The commit page of `file`. Throws Error{unsupported}, too. `read_page` also checks the file's size.
[[nodiscard]] CommitPage read_page_alone(const internal::File& file);
void require_size(const internal::File& file, const CommitPage& page);
[[nodiscard]] CommitPage read_page(const internal::File& file);

[[nodiscard]] CheckpointInfo to_info(const CommitPage& page, const std::filesystem::path& path);

/// The digest of the extent table, which covers all that it should.
[[nodiscard]] Digest digest_table(const internal::File& file, const CommitPage& page);
void require_table(const internal::File& file, const CommitPage& page, const Digest& digest);

/// Needs as many bytes of memory as the page says that contents have, which must be in the file.
[[nodiscard]] Contents read_contents(const internal::File& file, const CommitPage& page);
[[nodiscard]] std::vector<BlobInfo> blob_infos(const Contents& contents);

/// Reads the extents of this rank's share, and says of each whether its digest is right. Returns this rank's
/// part of each tensor's row digest.
[[nodiscard]] std::vector<std::uint64_t> visit_extents(
    const internal::File& file, const CommitPage& page, const Contents& contents, World world,
    const std::function<void(const Extent& extent, bool is_good)>& visit);

void require_rows(const internal::File& file, const TensorInfo& tensor, const TensorPlace& place,
                  std::uint64_t digest);

/// The bytes of a blob as they are stored.
[[nodiscard]] std::vector<std::byte> read_stored(const internal::File& file, const Contents& contents,
                                                 const BlobEntry& entry);

/// All steps: `verify_checkpoint`, over any file system.
[[nodiscard]] Verification verify(const internal::FileSystem& system, const std::filesystem::path& path);

}  // namespace checkpoint
}  // namespace rota
