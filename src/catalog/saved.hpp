#pragma once

// Catalogs as bytes: in files, and for other processes.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/files.hpp"

namespace rota {

template <typename Archive>
void serialize(Archive& archive, CatalogChanges& changes) {
  archive(changes.changed, changes.resized, changes.vanished, changes.appeared, changes.first);
}

}  // namespace rota

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
  KeptIndices::Kept kept;
};

/// All of a catalog.
struct CatalogContents {
  FileList files;
  Origin origin;
  CatalogChanges changes;
};

/// `catalog` as the bytes of a file, of that format, or of the one that is known where it is "auto". Names
/// that are computed are left out.
std::vector<std::byte> encode_catalog(const CatalogContents& catalog, const std::string& format = "auto");

/// The other way round; `path` is the file in messages. Throws as read_catalog does.
SavedCatalog parse_catalog(const std::string& path, const NodeBuffer& whole);

/// Whether `path` is a file that begins as a saved catalog does; in a storage, one whose name ends in
/// ".rota", for others are not opened. Throws as a storage does.
bool is_saved_catalog(const std::string& path, const Storages& storages);

/// Throws Error{invalid_argument} where `file`, which is no link, would be among the files of `origin`, and
/// so change them.
void refuse_inside(const std::filesystem::path& file, const Origin& origin);
/// Throws Error{invalid_argument} where no catalog of `origin` may be saved: inside, in place of a link, a
/// directory, a device or the like, and in a storage under a name without ".rota".
void require_savable(const std::filesystem::path& file, const Origin& origin, const Storages& storages);
/// Throws Error{invalid_argument} where `file` is there and one of `files`, by the name that it has there.
void refuse_in_place_of(const std::filesystem::path& file, const FileList& files);

/// Throws Error{corrupt} for a file that is damaged or cut short, Error{unsupported} for one of a later
/// version, Error{io}.
SavedCatalog read_catalog(const std::string& path, const Storages& storages);

/// **Collective** over `context`. The catalog at `path` as rank 0 reads it, once for each node; nothing where
/// no saved catalog is there. Throws on all ranks what read_catalog throws on rank 0.
std::optional<SavedCatalog> load_catalog(const OpenContext& context, const std::string& path);

/// What has become of the files of `before`.
CatalogChanges compare(const Listing& before, const Listing& now);

/// As bytes for another process, which lists no files.
std::string encode_sent(const CatalogContents& catalog);

/// The other way round, for one process. Throws as Catalog::deserialize does.
CatalogContents parse_sent(const std::shared_ptr<const OpenContext>& context, std::string_view bytes);

}  // namespace rota::internal
