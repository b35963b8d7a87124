#pragma once

// The catalog of a dataset of files: which ones there are, in order, and how large.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/list_files.hpp"
#include "catalog/listing.hpp"
#include "catalog/location.hpp"
#include "catalog/open_context.hpp"
#include "files/dataset_file.hpp"
#include "rota/catalog.hpp"
#include "rota/fingerprint.hpp"

namespace rota::internal {

class BadFiles;

/// What another process needs to know of files, beside their listing.
struct ListingFacts {
  std::string directory;                   ///< that names are relative to, absolute
  Fingerprint names;                       ///< of all names
  Fingerprint sizes = {};                  ///< of all sizes, where changes are detected by size
  std::vector<std::int64_t> samples = {};  ///< of each file, where they are known

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(directory, names.high, names.low, sizes.high, sizes.low, samples);
  }
};

/// Regular files, in order, by their names relative to one location. *Immutable.* All that makes one is
/// **collective** over its context.
class FileList {
 public:
  /// Visits names in order. Runs on rank 0.
  using Lister = std::function<Listed(const NameVisitor&)>;

  /// What `list` lists. Throws what that does, Error{io} naming a file whose size cannot be read. Where such
  /// may be passed over, they are not in it, or have no bytes, if not here.
  FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection, const Lister& list,
           bool passes_over_missing = true);
  /// Files whose names and `facts` all ranks have, from another process, or computed. Throws
  /// Error{not_found}, Error{io} naming the directory.
  FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
           std::shared_ptr<const Listing> listing, const ListingFacts& facts);

  /// Files of these names, in this order, in the same directory. Throws Error{not_found}, Error{io} naming
  /// one that is not there or is no regular file.
  [[nodiscard]] FileList beside(std::span<const std::string> names) const;
  /// Those whose last names pass, with changes detected by size; all, where none does.
  [[nodiscard]] FileList only(bool (*passes)(std::string_view name)) const;
  /// Those for which it is true.
  [[nodiscard]] FileList those(const std::vector<bool>& wanted) const;
  /// These files with changes detected by size, for formats that look into files.
  [[nodiscard]] FileList with_sizes() const { return those(std::vector<bool>(size(), true)); }

  [[nodiscard]] std::size_t size() const noexcept { return listing_->size(); }
  [[nodiscard]] const OpenContext& context() const noexcept { return *context_; }
  [[nodiscard]] const std::shared_ptr<const OpenContext>& shared_context() const noexcept { return context_; }
  [[nodiscard]] const Listing& listing() const noexcept { return *listing_; }
  [[nodiscard]] const std::shared_ptr<const Listing>& shared_listing() const noexcept { return listing_; }
  [[nodiscard]] const Location& location() const noexcept { return *location_; }
  [[nodiscard]] const std::string& directory() const noexcept { return location_->directory(); }
  /// For messages: "." for the working directory.
  [[nodiscard]] std::string shown_directory() const { return directory().empty() ? "." : directory(); }
  [[nodiscard]] ListingFacts facts() const;
  /// Names relative to the directory.
  [[nodiscard]] std::unique_ptr<Listing::Reader> read_names() const { return listing_->read_names(); }
  /// The path of file i, or of that name, as a user would write it.
  [[nodiscard]] std::string path(std::size_t i) const { return path((*read_names())[i]); }
  [[nodiscard]] std::string path(const std::string& name) const { return location_->path(name); }
  [[nodiscard]] ChangeDetection change_detection() const noexcept { return change_detection_; }
  /// How many bytes file i had when it was listed. Only where changes are detected by size.
  [[nodiscard]] std::int64_t bytes(std::size_t i) const { return listing_->stat(i).bytes; }
  /// Of names, and of sizes where changes are detected by size. Of listed names it is the same at every
  /// location; of computed ones it differs from that of the same files when listed.
  [[nodiscard]] Fingerprint fingerprint() const;
  /// Of names, sizes and times, where changes are detected by size.
  [[nodiscard]] Fingerprint fingerprint_with_times() const;

  /// Opens file i for reading; throws Error{not_found} or Error{io} naming it. Any thread.
  [[nodiscard]] DatasetFile open(std::size_t i, Access access = Access::cached) const;
  /// The same, where changes are detected by size. Throws Error{corrupt}, too, for a file with another size
  /// than when it was listed: where its data lie is no longer known.
  [[nodiscard]] DatasetFile open_unchanged(std::size_t i, Access access = Access::cached) const;

  /// Of files that somebody writes, which may have more bytes than when they were listed.
  void let_grow() noexcept { may_grow_ = true; }

  /// Expects as many samples in each file as `other`, of as many files, does.
  void expect_as(const FileList& other) { expected_ = other.expected_; }
  [[nodiscard]] bool knows_samples() const noexcept { return !expected_.bytes.empty(); }
  /// How many samples file i must have, or a negative number.
  [[nodiscard]] std::int64_t expected_samples(std::size_t i) const noexcept;

  /// On rank 0, names that were left out as none of a dataset's, where this process listed them.
  [[nodiscard]] std::int64_t left_out() const noexcept { return left_out_; }
  /// How many files were passed over (CatalogOptions::max_bad_files).
  [[nodiscard]] int passed_over() const noexcept { return passed_over_; }

  /// What sources have found in files; copies of the list share it, as do lists that are made of it.
  [[nodiscard]] KeptIndices& kept() const noexcept { return *kept_; }

 private:
  friend class BadFiles;

  [[nodiscard]] FileList derive(const Lister& list) const;
  [[nodiscard]] NameTable broadcast_names(const Lister& list, Listed& listed);
  void open_location(const std::string& directory);
  void expect(std::span<const std::int64_t> samples);
  void fetch_stats(const NameTable& names, std::vector<FileStat>& stats, BadFiles& bad);
  void fetch_stats(const NameTable& names, std::size_t first, std::span<FileStat> stats, BadFiles& bad) const;

  std::shared_ptr<const OpenContext> context_;
  ChangeDetection change_detection_;
  std::shared_ptr<const Location> location_;
  std::shared_ptr<const Listing> listing_;
  NodeBuffer expected_;  // samples of each file, where they are known
  Fingerprint names_;    // of all names
  Fingerprint sizes_;    // of all sizes, where changes are detected by size
  std::int64_t left_out_ = 0;
  int passed_over_ = 0;
  bool may_grow_ = false;
  std::shared_ptr<KeptIndices> kept_ = std::make_shared<KeptIndices>();
};

/// **Collective** over `context`. The files of `pattern`. Throws as Catalog::from_pattern does.
FileList generate_files(const std::shared_ptr<const OpenContext>& context, const std::string& pattern,
                        const PatternOptions& options);

/// The files of a catalog.
const FileList& files_of(const Catalog& catalog) noexcept;

}  // namespace rota::internal
