#include "rota/catalog.hpp"

#include <fmt/format.h>

#include <utility>

#include "catalog/file_names.hpp"
#include "catalog/files.hpp"
#include "catalog/manifest.hpp"
#include "catalog/saved.hpp"
#include "catalog/sent.hpp"
#include "catalog/serialize.hpp"
#include "files/descriptor.hpp"
#include "mpi/collectives.hpp"
#include "rota/error.hpp"

namespace rota {

template <typename Archive>
void serialize(Archive& archive, CatalogChanges& changes) {
  archive(changes.changed, changes.resized, changes.vanished, changes.appeared, changes.first);
}

}  // namespace rota

namespace rota::internal {
namespace {

// The ranks that open `path` together: the same on all of them, although rank 0 alone looks for it.
std::shared_ptr<const OpenContext> begin_to_open(const mpi::Communicator& comm, const std::string& path,
                                                 const CatalogOptions& options) {
  auto context = std::make_shared<const OpenContext>(comm, options);
  mpi::require_same(comm, "open a dataset", fmt::format("the path \"{}\"", path));
  return context;
}

// What `path` names for another process, as rank 0 has it. Collective.
Origin origin_at(const OpenContext& context, Origin::Kind kind, const std::filesystem::path& path) {
  return made_on_first_rank(context, "open a dataset", [&] {
    const bool is_absolute =
        path.empty() || parse_stored(path.native(), context.options.storages).storage != nullptr;
    return Origin{.kind = kind, .path = is_absolute ? path.native() : absolute_path(path.native())};
  });
}

// The files of `origin`; `shown` is its path as the user wrote it. Collective.
FileList list_origin(const std::shared_ptr<const OpenContext>& context, const Origin& origin,
                     ChangeDetection change_detection, const std::string& shown) {
  if (origin.kind != Origin::Kind::manifest) {
    return FileList::list(context, change_detection, shown, origin.kind == Origin::Kind::all_names);
  }
  std::vector<std::int64_t> samples;  // on rank 0
  FileList files(context, change_detection, [&](const NameVisitor& visit) {
    return Listed{list_manifest(shown, visit, context->options.storages, samples)};
  });
  files.expect(samples);
  return files;
}

// The files of the catalog that is saved at `path`. Collective.
FileList list_saved(const std::shared_ptr<const OpenContext>& context, const SavedCatalog& saved,
                    const std::string& path) {
  try {
    return list_origin(context, saved.origin, saved.change_detection, saved.origin.path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(error.code(),
                fmt::format("{}; the saved catalog {} holds absolute paths: where the data have "
                            "moved, make it anew (\"rota index\", Catalog::save)",
                            error.what(), path));
  }
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
  const std::string local = internal::local_path(path.native());
  const auto context = internal::begin_to_open(comm, local, options);
  if (const auto saved = internal::load_catalog(*context, local)) {
    auto files = internal::list_saved(context, *saved, local);
    auto changes = internal::made_on_first_rank(
        *context, "load a catalog", [&] { return internal::compare(*saved->files, files.listing()); });
    for (const auto& [signature, index] : saved->indices) files.kept().keep(signature, index);
    files.kept().set_format(saved->format);
    contents_ = std::make_shared<const Contents>(
        Contents{.files = std::move(files), .origin = saved->origin, .changes = std::move(changes)});
    return;
  }
  using Kind = internal::Origin::Kind;
  const auto origin = internal::origin_at(*context, options.all_names ? Kind::all_names : Kind::path, local);
  contents_ = std::make_shared<const Contents>(
      Contents{.files = internal::list_origin(context, origin, context->options.change_detection, local),
               .origin = origin,
               .changes = {}});
}

Catalog Catalog::from_manifest(const std::filesystem::path& manifest, const CatalogOptions& options) {
  return from_manifest(mpi::Communicator(), manifest, options);
}

Catalog Catalog::from_manifest(const mpi::Communicator& comm, const std::filesystem::path& manifest,
                               const CatalogOptions& options) {
  const auto context = internal::begin_to_open(comm, manifest.native(), options);
  const auto origin = internal::origin_at(*context, internal::Origin::Kind::manifest, manifest);
  return Catalog(std::make_shared<const Contents>(Contents{
      .files = internal::list_origin(context, origin, context->options.change_detection, manifest.native()),
      .origin = origin,
      .changes = {}}));
}

Catalog Catalog::from_paths(const std::vector<std::string>& paths, const CatalogOptions& options) {
  return from_paths(mpi::Communicator(), paths, options);
}

Catalog Catalog::from_paths(const mpi::Communicator& comm, const std::vector<std::string>& paths,
                            const CatalogOptions& options) {
  FingerprintBuilder all;
  for (const std::string& path : paths) all.add(path);
  const auto context = internal::begin_to_open(
      comm, fmt::format("list of {} paths, {}", paths.size(), to_string(all.finish())), options);
  return Catalog(std::make_shared<const Contents>(Contents{
      .files = {context, context->options.change_detection,
                [&](const internal::NameVisitor& visit) {
                  return internal::Listed{internal::list_paths(paths, visit, context->options.storages)};
                }},
      .origin = {},
      .changes = {}}));
}

Catalog Catalog::from_pattern(const std::string& pattern, const PatternOptions& pattern_options,
                              const CatalogOptions& options) {
  return from_pattern(mpi::Communicator(), pattern, pattern_options, options);
}

Catalog Catalog::from_pattern(const mpi::Communicator& comm, const std::string& pattern,
                              const PatternOptions& pattern_options, const CatalogOptions& options) {
  const auto context = internal::begin_to_open(comm, pattern, options);
  const auto origin = internal::origin_at(*context, internal::Origin::Kind::path, pattern);
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
  const mpi::Communicator& all = files.context().nodes.all();
  mpi::require_same(all, "save a catalog",
                    fmt::format("the file \"{}\" and the format \"{}\"", file.native(), format));
  mpi::together(all, "save a catalog", [&] {
    const std::string attempt = fmt::format("save a catalog to {}", file.native());
    internal::require_format(attempt, format);
    if (files.listing().is_computed()) {
      throw Error(ErrorCode::unsupported,
                  attempt + ": it was made of a pattern, and is as quickly made of it again");
    }
    if (origin().empty()) {
      throw Error(
          ErrorCode::unsupported,
          attempt + ": it was made of a list of paths; write them to a manifest, and make it of that");
    }
    if (all.rank() > 0) return;
    const Storages& storages = files.context().options.storages;
    const bool is_local = internal::parse_stored(file.native(), storages).storage == nullptr;
    if (is_local) internal::refuse_irregular(file);
    if (!is_local && !file.native().ends_with(internal::kStoredCatalogEnding)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("{}: in a storage, names of catalogs end in {}",
                                                           attempt, internal::kStoredCatalogEnding));
    }
    if (is_local != files.place().is_stored()) internal::refuse_inside(file, contents_->origin);
    if (is_local && !files.place().is_stored()) internal::refuse_in_place_of(file, files);
    internal::write_catalog(file,
                            {.origin = contents_->origin,
                             .change_detection = files.change_detection(),
                             .files = files.shared_listing(),
                             .indices = files.kept().all(),
                             .format = format == "auto" ? files.kept().format() : format},
                            storages);
  });
}

std::string Catalog::serialize() const {
  return internal::encode_sent({contents_->files, contents_->origin, contents_->changes});
}

Catalog Catalog::deserialize(std::string_view bytes, const CatalogOptions& options) {
  const auto context = std::make_shared<const internal::OpenContext>(mpi::Communicator(), options);
  auto sent = internal::parse_sent(context, bytes);
  return Catalog(std::make_shared<const Contents>(Contents{
      .files = std::move(sent.files), .origin = std::move(sent.origin), .changes = std::move(sent.changes)}));
}

}  // namespace rota

namespace rota::internal {

const FileList& files_of(const Catalog& catalog) noexcept { return catalog.contents_->files; }

}  // namespace rota::internal
