#include "rota/catalog.hpp"

#include <fmt/format.h>

#include <utility>

#include "catalog/files.hpp"
#include "catalog/format_names.hpp"
#include "catalog/generated.hpp"
#include "catalog/saved.hpp"
#include "catalog/serialize.hpp"
#include "mpi/same.hpp"
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
struct OpenPlan {
  bool is_saved = false;
  Origin origin;
  ChangeDetection change_detection = ChangeDetection::by_size;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(is_saved, origin, change_detection);
  }
};

// The ranks that open `path` together: the same on all of them, although rank 0 alone looks for it.
std::shared_ptr<const OpenContext> begin_to_open(const mpi::Communicator& comm, const std::string& path,
                                                 const CatalogOptions& options) {
  auto context = std::make_shared<const OpenContext>(comm, options);
  mpi::require_same(comm, "open a dataset", fmt::format("the path \"{}\"", path));
  return context;
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

Catalog::Catalog(const std::filesystem::path& path, const CatalogOptions& options)
    : Catalog(mpi::Communicator(), path, options) {}

Catalog::Catalog(const mpi::Communicator& comm, const std::filesystem::path& path,
                 const CatalogOptions& options) {
  const auto context = internal::begin_to_open(comm, path.native(), options);
  internal::SavedCatalog saved;  // on rank 0
  const internal::OpenPlan plan = internal::made_on_first_rank(*context, "open a dataset", [&] {
    if (!internal::is_saved_catalog(path.native())) {
      return internal::OpenPlan{.origin = {.path = internal::absolute_or_empty(path)},
                                .change_detection = context->options.change_detection};
    }
    saved = internal::read_catalog(path.native());
    return internal::OpenPlan{
        .is_saved = true, .origin = saved.origin, .change_detection = saved.change_detection};
  });
  internal::FileList files = internal::list_origin(context, plan.origin, plan.change_detection,
                                                   plan.is_saved ? plan.origin.path : path.native());
  CatalogChanges changes;
  if (plan.is_saved) {
    changes = internal::made_on_first_rank(*context, "load a catalog",
                                           [&] { return internal::compare(*saved.files, files.listing()); });
    internal::broadcast_indices(*context, saved.indices, files.kept());
    files.kept().set_format(saved.format);
  }
  contents_ = std::make_shared<const Contents>(
      Contents{.files = std::move(files), .origin = plan.origin, .changes = std::move(changes)});
}

Catalog Catalog::from_manifest(const std::filesystem::path& manifest, const CatalogOptions& options) {
  return from_manifest(mpi::Communicator(), manifest, options);
}

Catalog Catalog::from_manifest(const mpi::Communicator& comm, const std::filesystem::path& manifest,
                               const CatalogOptions& options) {
  const auto context = internal::begin_to_open(comm, manifest.native(), options);
  const auto origin = internal::made_on_first_rank(*context, "open a manifest", [&] {
    return internal::Origin{.kind = internal::Origin::Kind::manifest,
                            .path = internal::absolute_or_empty(manifest)};
  });
  return Catalog(std::make_shared<const Contents>(Contents{
      .files = internal::list_origin(context, origin, context->options.change_detection, manifest.native()),
      .origin = origin,
      .changes = {}}));
}

Catalog Catalog::from_pattern(const std::string& pattern, const PatternOptions& pattern_options,
                              const CatalogOptions& options) {
  return from_pattern(mpi::Communicator(), pattern, pattern_options, options);
}

Catalog Catalog::from_pattern(const mpi::Communicator& comm, const std::string& pattern,
                              const PatternOptions& pattern_options, const CatalogOptions& options) {
  const auto context = internal::begin_to_open(comm, pattern, options);
  const auto origin = internal::made_on_first_rank(*context, "make a catalog of a pattern", [&] {
    return internal::Origin{.path = internal::absolute_or_empty(pattern)};
  });
  return Catalog(std::make_shared<const Contents>(
      Contents{.files = internal::generate_files(context, pattern, pattern_options),
               .origin = origin,
               .changes = {}}));
}

std::int64_t Catalog::size() const noexcept { return static_cast<std::int64_t>(contents_->files.size()); }

std::string Catalog::path(std::int64_t i) const {
  contents_->require(i);
  return contents_->files.path(static_cast<std::size_t>(i));
}

ChangeDetection Catalog::change_detection() const noexcept { return contents_->files.change_detection(); }

std::int64_t Catalog::bytes(std::int64_t i) const {
  contents_->require(i);
  if (change_detection() == ChangeDetection::by_name) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tell the size of {}: sizes are not known where changes are detected by name",
                            contents_->files.path(static_cast<std::size_t>(i))));
  }
  return contents_->files.bytes(static_cast<std::size_t>(i));
}

Fingerprint Catalog::fingerprint() const { return contents_->files.fingerprint(); }

const CatalogChanges& Catalog::changes() const noexcept { return contents_->changes; }

const std::string& Catalog::origin() const noexcept { return contents_->origin.path; }

void Catalog::save(const std::filesystem::path& file, const std::string& format) const {
  const internal::FileList& files = contents_->files;
  mpi::together(files.context().nodes.all(), "save a catalog", [&] {
    const std::string attempt = fmt::format("save a catalog to {}", file.native());
    internal::require_format(attempt, format);
    if (files.listing().is_computed()) {
      throw Error(ErrorCode::unsupported,
                  attempt + ": it was made of a pattern, and is as quickly made of it again");
    }
    if (files.context().nodes.all().rank() > 0) return;
    internal::refuse_inside(file, contents_->origin);
    internal::refuse_irregular(file);
    internal::refuse_in_place_of(file, files);
    internal::write_catalog(file, {.origin = contents_->origin,
                                   .change_detection = files.change_detection(),
                                   .files = files.shared_listing(),
                                   .indices = files.kept().all(),
                                   .format = format == "auto" ? files.kept().format() : format});
  });
}

}  // namespace rota

namespace rota::internal {
const FileList& files_of(const Catalog& catalog) noexcept { return catalog.contents_->files; }

}  // namespace rota::internal
