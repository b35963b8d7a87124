#include "rota/catalog.hpp"

#include <fmt/format.h>

#include <utility>

#include "catalog/files.hpp"
#include "catalog/format_names.hpp"
#include "catalog/generated.hpp"
#include "catalog/saved.hpp"
#include "catalog/serialize.hpp"
#include "rota/error.hpp"
#include "storage/descriptor.hpp"

namespace rota {

template <typename Archive>
void serialize(Archive& archive, CatalogChanges& changes) {
  archive(changes.changed, changes.vanished, changes.appeared, changes.first);
}

}  // namespace rota

namespace rota::internal {
namespace {

std::string absolute_or_empty(const std::filesystem::path& path) {
  return path.empty() ? std::string() : absolute_path(path.native());
}

// How rank 0 is to find the files of `path`: as a saved catalog says, or by listing it.
struct Way {
  bool is_saved = false;
  Origin origin;
  Evidence evidence = Evidence::sizes;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(is_saved, origin, evidence);
  }
};

// What is to be opened must be the same on all ranks, although rank 0 alone looks for it.
void require_same_path(const Crew& crew, const std::string& path) {
  const std::string first = mpi::broadcast(crew.nodes.all(), path);
  mpi::together(crew.nodes.all(), "open a dataset", [&] {
    if (path == first) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("open a dataset with all ranks: rank 0 gives \"{}\", this rank \"{}\"; give all "
                            "the same path, or open it without a communicator",
                            first, path));
  });
}

}  // namespace

}  // namespace rota::internal

namespace rota {

struct Catalog::Contents {
  internal::FileList files;
  internal::Origin origin;
  CatalogChanges changes;

  void require(std::int64_t i) const {
    const auto size = static_cast<std::int64_t>(files.size());
    if (i >= 0 && i < size) return;
    throw Error(ErrorCode::out_of_range,
                fmt::format("look up file {} of a catalog: it has {}, numbered from 0 on", i, size));
  }
};

Catalog::Catalog(std::shared_ptr<const Contents> contents) : contents_(std::move(contents)) {}

Catalog::Catalog(const std::filesystem::path& path, const CatalogOptions& options) {
  const auto crew = std::make_shared<const internal::Crew>(options);
  internal::require_same_path(*crew, path.native());
  internal::SavedCatalog saved;  // on rank 0
  const internal::Way way = internal::made_on_first_rank(*crew, "open a dataset", [&] {
    if (!internal::is_saved_catalog(path.native())) {
      return internal::Way{.origin = {.path = internal::absolute_or_empty(path)},
                           .evidence = crew->options.evidence};
    }
    saved = internal::read_catalog(path.native());
    return internal::Way{.is_saved = true, .origin = saved.origin, .evidence = saved.evidence};
  });
  internal::FileList files =
      internal::list_origin(crew, way.origin, way.evidence, way.is_saved ? way.origin.path : path.native());
  CatalogChanges changes;
  if (way.is_saved) {
    changes = internal::made_on_first_rank(*crew, "load a catalog",
                                           [&] { return internal::compare(*saved.files, files.table()); });
    internal::broadcast_indices(*crew, saved.indices, files.kept());
    files.kept().set_format(saved.format);
  }
  contents_ = std::make_shared<const Contents>(
      Contents{.files = std::move(files), .origin = way.origin, .changes = std::move(changes)});
}

Catalog Catalog::from_manifest(const std::filesystem::path& manifest, const CatalogOptions& options) {
  const auto crew = std::make_shared<const internal::Crew>(options);
  internal::require_same_path(*crew, manifest.native());
  const auto origin = internal::made_on_first_rank(*crew, "open a manifest", [&] {
    return internal::Origin{.kind = internal::Origin::Kind::manifest,
                            .path = internal::absolute_or_empty(manifest)};
  });
  return Catalog(std::make_shared<const Contents>(
      Contents{.files = internal::list_origin(crew, origin, crew->options.evidence, manifest.native()),
               .origin = origin,
               .changes = {}}));
}

Catalog Catalog::from_pattern(const std::string& pattern, const PatternOptions& pattern_options,
                              const CatalogOptions& options) {
  const auto crew = std::make_shared<const internal::Crew>(options);
  internal::require_same_path(*crew, pattern);
  const auto origin = internal::made_on_first_rank(*crew, "make a catalog of a pattern", [&] {
    return internal::Origin{.path = internal::absolute_or_empty(pattern)};
  });
  return Catalog(std::make_shared<const Contents>(Contents{
      .files = internal::generate_files(crew, pattern, pattern_options), .origin = origin, .changes = {}}));
}

std::int64_t Catalog::size() const noexcept { return static_cast<std::int64_t>(contents_->files.size()); }

std::string Catalog::path(std::int64_t i) const {
  contents_->require(i);
  return contents_->files.path(static_cast<std::size_t>(i));
}

Evidence Catalog::evidence() const noexcept { return contents_->files.evidence(); }

std::int64_t Catalog::bytes(std::int64_t i) const {
  contents_->require(i);
  if (evidence() == Evidence::names) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tell the size of {}: sizes are not known where names are evidence",
                            contents_->files.path(static_cast<std::size_t>(i))));
  }
  return contents_->files.bytes(static_cast<std::size_t>(i));
}

Fingerprint Catalog::fingerprint() const { return contents_->files.fingerprint(); }

const CatalogChanges& Catalog::changes() const noexcept { return contents_->changes; }

const std::string& Catalog::origin() const noexcept { return contents_->origin.path; }

void Catalog::save(const std::filesystem::path& file, const std::string& format) const {
  const internal::FileList& files = contents_->files;
  mpi::together(files.crew().nodes.all(), "save a catalog", [&] {
    const std::string attempt = fmt::format("save a catalog to {}", file.native());
    internal::require_format(attempt, format);
    if (files.listing().is_computed()) {
      throw Error(ErrorCode::unsupported,
                  attempt + ": it was made of a pattern, and is as quickly made of it again");
    }
    if (files.crew().nodes.all().rank() > 0) return;
    internal::refuse_inside(file, contents_->origin);
    internal::refuse_irregular(file);
    internal::refuse_in_place_of(file, files);
    internal::write_catalog(file, {.origin = contents_->origin,
                                   .evidence = files.evidence(),
                                   .files = files.shared_table(),
                                   .indices = files.kept().all(),
                                   .format = format == "auto" ? files.kept().format() : format});
  });
}

}  // namespace rota

namespace rota::internal {
const FileList& files_of(const Catalog& catalog) noexcept { return catalog.contents_->files; }

}  // namespace rota::internal
