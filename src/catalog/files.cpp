#include "catalog/files.hpp"

#include <xxhash.h>

#include <array>
#include <utility>

#include "catalog/bad_files.hpp"
#include "core/bytes.hpp"
#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/parallel.hpp"
#include "ranks/collectives.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kFilesAtOnce = 256;  // that a thread takes
constexpr std::int64_t kFilesPerLook = 1024;

}  // namespace

FileList::FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
                   const Lister& list, bool passes_over_missing)
    : context_(std::move(context)), change_detection_(change_detection) {
  Listed listed;
  NameTable names = broadcast_names(list, listed);
  BadFiles missing(*context_, *location_);
  fetch_stats(names, listed.stats, missing);
  listing_ = std::make_shared<Listing>(
      std::move(names),
      all_gather_to_nodes(context_->nodes, "hand out sizes", std::as_bytes(std::span(listed.stats))));
  expect(listed.samples);
  if (!passes_over_missing) return;
  if (const auto good = missing.pass_over(*this)) *this = *good;
}

FileList::FileList(std::shared_ptr<const OpenContext> context, ChangeDetection change_detection,
                   std::shared_ptr<const Listing> listing, const ListingFacts& facts)
    : context_(std::move(context)),
      change_detection_(change_detection),
      listing_(std::move(listing)),
      names_(facts.names),
      sizes_(facts.sizes) {
  open_location(facts.directory);
  expect(facts.samples);
}

ListingFacts FileList::facts() const {
  ListingFacts facts{
      .directory = location_->absolute_directory(), .names = names_, .sizes = sizes_, .samples = {}};
  for (std::size_t i = 0; knows_samples() && i < size(); ++i) facts.samples.push_back(expected_samples(i));
  return facts;
}

// All ranks get the names while they are found, and open the location. `listed` is rank 0's.
NameTable FileList::broadcast_names(const Lister& list, Listed& listed) {
  const ranks::Nodes& nodes = context_->nodes;
  const auto shared = broadcast_to_nodes(nodes, "list files", [&](const ByteSink& sink) {
    NameTableBuilder names(sink);
    ProgressReporter reporter(context_->options.progress, "list files", 0);
    listed = list([&](std::string_view below, std::string_view name) {
      names.add(below, name);
      reporter.add(1, names.size() % kFilesPerLook == 0);
    });
    reporter.end();
    sink(names.end());
    names_ = names.digest();
    left_out_ = listed.left_out;
  });
  open_location(ranks::broadcast(nodes.all(), listed.directory));
  names_ = ranks::broadcast(nodes.all(), names_);
  return {shared.bytes, shared.owner};
}

void FileList::open_location(const std::string& directory) {
  context_->nodes.all().together("open the dataset's directory", [&] {
    location_ = std::make_shared<const Location>(directory, context_->options.storages);
  });
}

// `stats` becomes that of this rank's share of the files. Where it is known, rank 0 has all. Collective.
void FileList::fetch_stats(const NameTable& names, std::vector<FileStat>& stats, BadFiles& bad) {
  if (change_detection_ == ChangeDetection::by_name) return stats.clear();
  const Communicator& all = context_->nodes.all();
  const auto first_of = [&](int rank) { return share(std::ssize(names), rank, all.size()); };
  const bool is_known = ranks::broadcast(all, !stats.empty());
  const std::int64_t first = is_known ? 0 : first_of(all.rank());
  all.together("ask for sizes", [&] {
    if (is_known) return;
    stats.resize(static_cast<std::size_t>(first_of(all.rank() + 1) - first));
    fetch_stats(names, static_cast<std::size_t>(first), stats, bad);
  });
  std::array<std::int64_t, 2> sum{};
  for (std::size_t i = 0; i < stats.size(); ++i) {
    const std::array words = {first + static_cast<std::int64_t>(i), stats[i].bytes};
    const XXH128_hash_t digest = XXH3_128bits(words.data(), sizeof(words));
    sum[0] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[0]) + digest.high64);
    sum[1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum[1]) + digest.low64);
  }
  all.sum(sum);
  sizes_ = {.high = static_cast<std::uint64_t>(sum[0]), .low = static_cast<std::uint64_t>(sum[1])};
}

// Of the files from `first` on. The error of the first file that has one is thrown.
void FileList::fetch_stats(const NameTable& names, std::size_t first, std::span<FileStat> stats,
                           BadFiles& bad) const {
  ProgressReporter reporter(context_->options.progress, "ask for sizes", std::ssize(stats));
  const bool is_stored = location_->is_stored();
  const int threads = std::max(context_->options.listing_threads, is_stored ? kStoredAtOnce : 1);
  parallel_for(
      "list files", std::ssize(stats), is_stored ? 4 : kFilesAtOnce, threads, [&](const LoopPart& part) {
        NameReader reader(names);
        for (auto i = static_cast<std::size_t>(part.begin); std::cmp_less(i, part.end); ++i) {
          bad.try_with(first + i, FileWork::opening, [&] { stats[i] = location_->stat(reader[first + i]); });
        }
        reporter.add(part.end - part.begin, part.is_callers);
      });
  reporter.end();
}

void FileList::expect(std::span<const std::int64_t> samples) {
  expected_ = broadcast_to_nodes(context_->nodes, "hand out numbers of samples",
                                 [&](const ByteSink& sink) { sink(std::as_bytes(samples)); });
}

std::int64_t FileList::expected_samples(std::size_t i) const noexcept {
  return expected_.bytes.empty() ? -1 : load<std::int64_t>(expected_.bytes, i * sizeof(std::int64_t));
}

// A list of files in the same directory, with changes detected by size, with what is known of files.
FileList FileList::derive(const Lister& list) const {
  FileList files(context_, ChangeDetection::by_size, list, false);
  files.kept_ = kept_;
  files.left_out_ = left_out_;
  files.passed_over_ = passed_over_;
  files.may_grow_ = may_grow_;
  return files;
}

FileList FileList::beside(std::span<const std::string> names) const {
  return derive([&](const NameVisitor& visit) {
    for (const std::string& name : names) visit("", name);
    return Listed{.directory = directory()};
  });
}

FileList FileList::only(bool (*passes)(std::string_view name)) const {
  const auto names = read_names();
  std::vector<bool> wanted(size());
  for (std::size_t i = 0; i < size(); ++i) {
    const std::string_view name = (*names)[i];
    wanted[i] = passes(name.substr(name.rfind('/') + 1));
  }
  return std::ranges::find(wanted, true) != wanted.end() ? those(wanted) : with_sizes();
}

FileList FileList::those(const std::vector<bool>& wanted) const {
  const bool are_all = std::ranges::find(wanted, false) == wanted.end();
  if (are_all && change_detection_ == ChangeDetection::by_size) return *this;
  const auto names = read_names();
  return derive([&](const NameVisitor& visit) {
    Listed listed{.directory = directory()};
    for (std::size_t i = 0; i < size(); ++i) {
      if (!wanted[i]) continue;
      visit("", (*names)[i]);
      if (change_detection_ == ChangeDetection::by_size) listed.stats.push_back(listing_->stat(i));
      if (knows_samples()) listed.samples.push_back(expected_samples(i));
    }
    return listed;
  });
}

Fingerprint FileList::fingerprint() const {
  FingerprintBuilder builder;
  builder.add(to_string(change_detection_)).add(static_cast<std::int64_t>(size())).add(to_string(names_));
  if (change_detection_ == ChangeDetection::by_size) builder.add(to_string(sizes_));
  return builder.finish();
}

Fingerprint FileList::fingerprint_with_times() const {
  const std::span<const std::byte> stats = listing_->stats();
  return FingerprintBuilder()
      .add(to_string(names_))
      .add(std::string_view(reinterpret_cast<const char*>(stats.data()), stats.size()))
      .finish();
}

DatasetFile FileList::open(std::size_t i, Access access) const {
  const bool is_known = change_detection_ == ChangeDetection::by_size;
  const FileStat known = is_known ? listing_->stat(i) : FileStat();
  return location_->open((*read_names())[i], i, access, is_known ? &known : nullptr);
}

DatasetFile FileList::open_unchanged(std::size_t i, Access access) const {
  DatasetFile file = open(i, access);
  const auto found = static_cast<std::int64_t>(file.bytes());
  if (found == bytes(i) || (may_grow_ && found > bytes(i))) return file;
  throw failure(ErrorCode::corrupt,
                "read {}: it has {} bytes now and had {} when it was listed; restore the file, or open the "
                "dataset anew as another one",
                file.path(), file.bytes(), bytes(i));
}

}  // namespace rota::internal

namespace rota {

std::string_view to_string(ChangeDetection change_detection) noexcept {
  return internal::kChangeDetections[static_cast<std::size_t>(change_detection)];
}

std::string_view to_string(Access access) noexcept {
  return internal::kAccesses[static_cast<std::size_t>(access)];
}

}  // namespace rota
