#include "rota/catalog.hpp"

#include <fmt/format.h>

#include <utility>

#include "catalog/file_names.hpp"
#include "catalog/open_context.hpp"
#include "catalog/saved.hpp"
#include "core/caught.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/option.hpp"
#include "files/descriptor.hpp"
#include "files/path.hpp"
#include "ranks/collectives.hpp"

namespace rota::internal {

OpenContext::OpenContext(const Communicator& comm, CatalogOptions how)
    : options(std::move(how)), nodes(comm.duplicate()) {
  nodes.all().together("make a catalog", [&] { options.validate(); });
  options.change_detection = ranks::broadcast(nodes.all(), options.change_detection);
  options.share_files = ranks::broadcast(nodes.all(), options.share_files);
  options.shared_memory_limit = ranks::broadcast(nodes.all(), options.shared_memory_limit);
  options.max_bad_files = ranks::broadcast(nodes.all(), options.max_bad_files);
  // Other ranks wait for this one, and see that it goes on.
  options.progress = [this, shown = std::move(options.progress)](const Progress& progress) {
    nodes.show_progress();
    if (shown) shown(progress);
  };
}

namespace {

using Context = std::shared_ptr<const OpenContext>;

// The ranks that open `path` together: the same on all of them, although rank 0 alone looks for it.
Context begin_to_open(const Communicator& comm, const std::string& path, const CatalogOptions& options) {
  auto context = std::make_shared<const OpenContext>(comm, options);
  ranks::require_same(comm, "open a dataset", fmt::format("the path \"{}\"", path));
  return context;
}

// The same, and what path is meant.
std::pair<Context, std::string> begin_at(const Communicator& comm, const std::string& path,
                                         const CatalogOptions& options) {
  Context context = begin_to_open(comm, path, options);
  std::string plain = made_on_first_rank(*context, "open a dataset", [&] { return plain_path(path); });
  return {std::move(context), std::move(plain)};
}

// What `path` names for another process, as rank 0 has it. Collective.
Origin origin_at(const OpenContext& context, Origin::Kind kind, const std::string& path) {
  return made_on_first_rank(context, "open a dataset", [&] {
    const bool is_absolute = path.empty() || parse_stored(path, context.options.storages).storage != nullptr;
    return Origin{.kind = kind, .path = is_absolute ? path : absolute_path(path)};
  });
}

// The files of `origin`; `shown` is its path as the user wrote it. Collective.
FileList list_origin(const Context& context, const Origin& origin, ChangeDetection change_detection,
                     const std::string& shown) {
  return {context, change_detection, [&](const NameVisitor& visit) {
            const CatalogOptions& options = context->options;
            return origin.kind == Origin::Kind::manifest
                       ? list_manifest(shown, options.storages, visit)
                       : list_path(shown, options, origin.kind == Origin::Kind::all_names, visit);
          }};
}

CatalogContents list_new(const Context& context, Origin::Kind kind, const std::string& path) {
  Origin origin = origin_at(*context, kind, path);
  FileList files = list_origin(context, origin, context->options.change_detection, path);
  return {.files = std::move(files), .origin = std::move(origin), .changes = {}};
}

// The files of the catalog that is saved at `path`. Collective.
FileList list_saved(const Context& context, const SavedCatalog& saved, const std::string& path) {
  try {
    return list_origin(context, saved.origin, saved.change_detection, saved.origin.path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw failure(error.code(),
                  "{}; the saved catalog {} holds absolute paths: where the data have moved, make it anew "
                  "(\"rota index\", or save of a catalog)",
                  error.what(), path);
  }
}

CatalogContents open_path(const Communicator& comm, const std::string& written,
                          const CatalogOptions& options) {
  const auto [context, path] = begin_at(comm, written, options);
  const auto saved = load_catalog(*context, path);
  if (!saved)
    return list_new(context, options.all_names ? Origin::Kind::all_names : Origin::Kind::path, path);
  FileList files = list_saved(context, *saved, path);
  auto changes =
      made_on_first_rank(*context, "load a catalog", [&] { return compare(*saved->files, files.listing()); });
  files.kept().change([&](auto& kept) { kept = saved->kept; });
  return {.files = std::move(files), .origin = saved->origin, .changes = std::move(changes)};
}

std::size_t require_file(const FileList& files, std::int64_t i) {
  const auto size = static_cast<std::int64_t>(files.size());
  if (i >= 0 && i < size) return static_cast<std::size_t>(i);
  throw failure(ErrorCode::out_of_range, "look up file {} of a catalog: it has {}, numbered from 0 on", i,
                size);
}

}  // namespace
}  // namespace rota::internal

namespace rota {

void CatalogOptions::validate() const {
  constexpr internal::OptionCheck kCheck("make a catalog");
  kCheck.one_of("change_detection", change_detection, internal::kChangeDetections);
  kCheck.one_of("access", access, internal::kAccesses);
  kCheck.in_range("listing_threads", listing_threads, 1, internal::kMaxThreads);
  kCheck.in_range("indexing_threads", indexing_threads, 1, internal::kMaxThreads);
  kCheck.in_range("max_open_files", max_open_files, 1);
  kCheck.in_range("shared_memory_limit", shared_memory_limit, 0);
  kCheck.in_range("decoded_bytes", decoded_bytes, 0);
  kCheck.in_range("max_bad_files", max_bad_files, 0);
  for (const auto& [scheme, storage] : storages) {
    constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyz";
    constexpr std::string_view kAll = "abcdefghijklmnopqrstuvwxyz0123456789+-.";
    const bool is_scheme = scheme.empty() || (scheme.find_first_of(kFirst) == 0 &&
                                              scheme.find_first_not_of(kAll) == std::string::npos);
    if (!is_scheme) kCheck.refuse("storages", scheme, "schemes: lower-case letters, digits, +, - and .");
    if (storage == nullptr) kCheck.refuse("storages", scheme + " without a storage", "one for each scheme");
  }
}

Catalog::Catalog(internal::CatalogContents contents)
    : contents_(std::make_shared<const internal::CatalogContents>(std::move(contents))) {}

Catalog::Catalog(const std::filesystem::path& path, const CatalogOptions& options)
    : Catalog(Communicator(), path, options) {}

Catalog::Catalog(const Communicator& comm, const std::filesystem::path& path, const CatalogOptions& options)
    : Catalog(internal::open_path(comm, path.native(), options)) {}

Catalog Catalog::from_manifest(const std::filesystem::path& manifest, const CatalogOptions& options) {
  return from_manifest(Communicator(), manifest, options);
}

Catalog Catalog::from_manifest(const Communicator& comm, const std::filesystem::path& manifest,
                               const CatalogOptions& options) {
  const auto [context, path] = internal::begin_at(comm, manifest.native(), options);
  return Catalog(internal::list_new(context, internal::Origin::Kind::manifest, path));
}

Catalog Catalog::from_paths(const std::vector<std::string>& paths, const CatalogOptions& options) {
  return from_paths(Communicator(), paths, options);
}

Catalog Catalog::from_paths(const Communicator& comm, const std::vector<std::string>& paths,
                            const CatalogOptions& options) {
  FingerprintBuilder all;
  for (const std::string& path : paths) all.add(path);
  const auto context = internal::begin_to_open(
      comm, fmt::format("list of {} paths, {}", paths.size(), to_string(all.finish())), options);
  internal::FileList files(context, context->options.change_detection,
                           [&](const internal::NameVisitor& visit) {
                             return internal::list_paths(paths, context->options.storages, visit);
                           });
  return Catalog({.files = std::move(files), .origin = {}, .changes = {}});
}

Catalog Catalog::from_pattern(const std::string& pattern, const PatternOptions& pattern_options,
                              const CatalogOptions& options) {
  return from_pattern(Communicator(), pattern, pattern_options, options);
}

Catalog Catalog::from_pattern(const Communicator& comm, const std::string& pattern,
                              const PatternOptions& pattern_options, const CatalogOptions& options) {
  const auto [context, path] = internal::begin_at(comm, pattern, options);
  auto origin = internal::origin_at(*context, internal::Origin::Kind::path, path);
  return Catalog({.files = internal::generate_files(context, path, pattern_options),
                  .origin = std::move(origin),
                  .changes = {}});
}

std::int64_t Catalog::size() const noexcept { return static_cast<std::int64_t>(contents_->files.size()); }

std::string Catalog::path(std::int64_t i) const {
  return contents_->files.path(internal::require_file(contents_->files, i));
}

ChangeDetection Catalog::change_detection() const noexcept { return contents_->files.change_detection(); }

std::int64_t Catalog::bytes(std::int64_t i) const {
  const std::size_t file = internal::require_file(contents_->files, i);
  if (change_detection() == ChangeDetection::by_size) return contents_->files.bytes(file);
  throw internal::failure(ErrorCode::invalid_argument,
                          "look up the size of {}: sizes are not known where changes are detected by name",
                          contents_->files.path(file));
}

Fingerprint Catalog::fingerprint() const { return contents_->files.fingerprint(); }

const CatalogChanges& Catalog::changes() const noexcept { return contents_->changes; }

const std::string& Catalog::origin() const noexcept { return contents_->origin.path; }

void Catalog::save(const std::filesystem::path& file, const std::string& format) const {
  const internal::FileList& files = contents_->files;
  const Communicator& all = files.context().nodes.all();
  ranks::require_same(all, "save a catalog",
                      fmt::format("the file \"{}\" and the format \"{}\"", file.native(), format));
  all.together("save a catalog", [&] {
    const std::filesystem::path to = internal::plain_path(file.native());
    const std::string attempt = fmt::format("save a catalog to {}", to.native());
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
    internal::require_savable(to, contents_->origin, storages);
    internal::refuse_in_place_of(to, files);
    const auto bytes = internal::encode_catalog(*contents_, format);
    try {
      internal::replace_file(to.native(), bytes, storages);
    } catch (...) {
      throw internal::caught().as_error(attempt);
    }
  });
}

std::string Catalog::serialize() const { return internal::encode_sent(*contents_); }

Catalog Catalog::deserialize(std::string_view bytes, const CatalogOptions& options) {
  const auto context = std::make_shared<const internal::OpenContext>(Communicator(), options);
  return Catalog(internal::parse_sent(context, bytes));
}

}  // namespace rota

namespace rota::internal {

const FileList& files_of(const Catalog& catalog) noexcept { return catalog.contents_->files; }

}  // namespace rota::internal
