#pragma once

// Catalogs in files.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/files.hpp"

namespace rota::internal {

/// What a catalog was made of, so that its files can be found again.
struct Origin {
  enum class Kind : std::uint8_t { path, manifest, all_names };

  Kind kind = Kind::path;
  std::string path;  ///< absolute, for another process

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(kind, path);
  }
};

/// What a file keeps of a catalog.
struct SavedCatalog {
  Origin origin;
  ChangeDetection change_detection = ChangeDetection::by_size;
  std::shared_ptr<const Listing> files;
  KeptIndices::Map indices;
  std::string format;  ///< that the files are of; empty: to be found by a look
};

/// `catalog` as the bytes of a file. No names of files that are computed.
std::vector<std::byte> encode_catalog(const SavedCatalog& catalog);

/// The other way round; `path` is the file in messages. Throws as read_catalog does.
SavedCatalog parse_catalog(const std::string& path, const NodeBuffer& whole);

/// Of catalogs in storages.
inline constexpr std::string_view kStoredCatalogEnding = ".rota";

/// Whether `path` is a file that begins as a saved catalog does; in a storage, one whose name ends in
/// ".rota", for others are not asked for. Throws as a storage does.
bool is_saved_catalog(const std::string& path, const Storages& storages);

/// How many bytes the file `path` has; nothing where there is none. Throws as a storage does.
std::optional<std::uint64_t> bytes_of_saved(const std::string& path, const Storages& storages);

/// Throws Error{invalid_argument} where `file` is there, and a link, a directory, a device or the like.
void refuse_irregular(const std::filesystem::path& file);

/// Throws Error{invalid_argument} where `file`, which is no link, would be among the files of `origin`, and
/// so change them.
void refuse_inside(const std::filesystem::path& file, const Origin& origin);

/// Throws Error{invalid_argument} where `file` is there and one of `files`, by the name that it has there.
void refuse_in_place_of(const std::filesystem::path& file, const FileList& files);

/// Writes `catalog` to `path`, in the place of what is there. Throws Error{io}; what was there is then
/// untouched.
void write_catalog(const std::filesystem::path& path, const SavedCatalog& catalog, const Storages& storages);

/// Throws Error{corrupt} for a file that is damaged or cut short, Error{unsupported} for one of a later
/// version, Error{io}.
SavedCatalog read_catalog(const std::string& path, const Storages& storages);

/// **Collective** over `context`. The catalog at `path` as rank 0 reads it, once for each node; nothing where
/// no saved catalog is there. Throws on all ranks what read_catalog throws on rank 0.
std::optional<SavedCatalog> load_catalog(const OpenContext& context, const std::string& path);

/// What has become of the files of `before`.
CatalogChanges compare(const Listing& before, const Listing& now);

}  // namespace rota::internal
