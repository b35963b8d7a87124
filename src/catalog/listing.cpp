#include "catalog/listing.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "catalog/bad_files.hpp"
#include "core/bytes.hpp"
#include "core/message.hpp"
#include "core/parallel.hpp"
#include "core/wait.hpp"

namespace rota::internal {

namespace {

constexpr std::size_t kMostUnused = 16;

// A part: number of files; of each its bytes; then those, each filled up to a multiple of eight.
using Word = std::uint64_t;

constexpr std::string_view kReading = "read an index of files, which is damaged (index the files again)";

// This rank's files, from one to before another: about as many bytes as the others'.
std::pair<std::size_t, std::size_t> share_of_rank(const FileList& files) {
  const Communicator& all = files.context().nodes.all();
  double total = 0;
  for (std::size_t i = 0; i < files.size(); ++i) total += 1 + static_cast<double>(files.bytes(i));
  std::pair range(files.size(), files.size());
  double before = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const int rank = std::min(static_cast<int>(before / total * all.size()), all.size() - 1);
    if (rank >= all.rank()) range.first = std::min(range.first, i);
    if (rank > all.rank()) range.second = std::min(range.second, i);
    before += 1 + static_cast<double>(files.bytes(i));
  }
  return range;
}

// Of each of `files`, its number in `known`, or -1 where it is not there, or not as it was.
std::vector<std::int64_t> numbers_in(const Listing& known, const Listing& files) {
  const auto numbers = known.numbers();
  std::vector<std::int64_t> found(files.size(), -1);
  NameReader names(files.names());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto number = numbers.find(names[i]);
    if (number == numbers.end() || known.stat(number->second) != files.stat(i)) continue;
    found[i] = static_cast<std::int64_t>(number->second);
  }
  return found;
}

}  // namespace

/// Readers that are not in use, each with the block that it decompressed last.
class Listing::Readers : public std::enable_shared_from_this<Readers> {
 public:
  explicit Readers(NameTable names) : names_(std::move(names)) { unused_.reserve(kMostUnused); }

  /// One that comes back when it is no longer used, and may outlive the listing.
  std::shared_ptr<NameReader> take() {
    std::unique_ptr<NameReader> reader;
    {
      const MutexLock lock(mutex_);
      if (!unused_.empty()) {
        reader = std::move(unused_.back());
        unused_.pop_back();
      }
    }
    if (reader == nullptr) reader = std::make_unique<NameReader>(names_);
    return {reader.release(), [home = shared_from_this()](NameReader* used) {
              std::unique_ptr<NameReader> over(used);
              const MutexLock lock(home->mutex_);
              if (home->unused_.size() < kMostUnused) home->unused_.push_back(std::move(over));
            }};
  }

 private:
  NameTable names_;
  Mutex mutex_;
  std::vector<std::unique_ptr<NameReader>> unused_ ROTA_GUARDED_BY(mutex_);
};

Listing::Listing(NameTable names, NodeBuffer stats)
    : names_(std::move(names)), stats_(std::move(stats)), readers_(std::make_shared<Readers>(names_)) {}

const std::string& Listing::Reader::operator[](std::size_t i) {
  if (table_ != nullptr) return (*table_)[i];
  name_ = series_->name(static_cast<std::int64_t>(i));
  return name_;
}

std::unique_ptr<Listing::Reader> Listing::read_names() const {
  return std::make_unique<Reader>(is_computed() ? nullptr : readers_->take(), &series_);
}

std::unordered_map<std::string, std::size_t> Listing::numbers() const {
  std::unordered_map<std::string, std::size_t> numbers;
  NameReader names(names_);
  for (std::size_t i = 0; i < size(); ++i) numbers.emplace(names[i], i);
  return numbers;
}

FileStat Listing::stat(std::size_t i) const { return load<FileStat>(stats_.bytes, i * sizeof(FileStat)); }

bool operator==(const Listing& a, const Listing& b) noexcept {
  return std::ranges::equal(a.names_.bytes(), b.names_.bytes()) && std::ranges::equal(a.stats(), b.stats());
}

std::vector<std::byte> encode_part(std::span<const std::vector<std::byte>> files) {
  std::size_t bytes = (1 + files.size()) * sizeof(Word);
  for (const auto& file : files) bytes += filled_up(file.size());
  ByteWriter part;
  part.reserve(bytes);
  part.add<Word>(files.size());
  for (const auto& file : files) part.add<Word>(file.size());
  for (const auto& file : files) {
    part.add_bytes(file);
    constexpr std::array<std::byte, sizeof(Word)> kZeros{};
    part.add_bytes(std::span(kZeros).first(filled_up(file.size()) - file.size()));
  }
  return std::move(part).take();
}

FileIndex::FileIndex(std::shared_ptr<const Listing> files, NodeBuffer bytes)
    : files_(std::move(files)), bytes_(std::move(bytes)) {
  ByteReader rest(bytes_.bytes, kReading);
  while (!rest.at_end()) {
    const auto count = rest.next<Word>();
    if (count > files_->size() - found_.size()) rest.fail("it has more files than there are");
    ByteReader sizes(rest.next_bytes(count * sizeof(Word)), kReading);
    while (!sizes.at_end()) {
      const auto size = sizes.next<Word>();
      found_.push_back(rest.next_bytes(size));
      (void)rest.next_bytes(filled_up(size) - size);
    }
  }
  if (found_.size() != files_->size()) rest.fail("it ends early");
}

std::shared_ptr<const FileIndex> index_files(FileList& files, const std::string& signature,
                                             const LookIntoFile& look) {
  const auto indices = files.kept().get().indices;
  const auto kept = indices.find(signature);
  std::shared_ptr<const FileIndex> known = kept == indices.end() ? nullptr : kept->second;
  if (known && known->files() == files.listing()) return known;
  const std::vector<std::int64_t> known_as =
      known ? numbers_in(known->files(), files.listing()) : std::vector<std::int64_t>(files.size(), -1);
  const OpenContext& context = files.context();
  const auto range = share_of_rank(files);
  const std::size_t first = range.first;
  std::vector<std::vector<std::byte>> found(range.second - first);
  BadFiles bad(context, files.location());
  context.nodes.all().together("index files", [&] {
    std::vector<std::size_t> unknown;
    for (std::size_t i = first; i < range.second; ++i) {
      if (known_as[i] < 0) {
        unknown.push_back(i);
      } else {
        const auto bytes = (*known)[static_cast<std::size_t>(known_as[i])];
        found[i - first].assign(bytes.begin(), bytes.end());
      }
    }
    ProgressReporter reporter(context.options.progress, "index files", std::ssize(unknown));
    const WaitScope scope{Wait([&reporter, &outer = Wait::here()] {
      outer.check();
      reporter.look();
    })};
    // Threads take one file after the other, so that none waits for one that has larger ones.
    parallel_for("index files", std::ssize(unknown), 1, context.options.indexing_threads,
                 [&](const LoopPart& part) {
                   const std::size_t i = unknown[static_cast<std::size_t>(part.begin)];
                   std::optional<DatasetFile> file;
                   if (bad.try_with(i, FileWork::opening, [&] { file.emplace(files.open_unchanged(i)); }))
                     bad.try_with(i, FileWork::reading, [&] { found[i - first] = look(*file); });
                   reporter.add(1, part.is_callers);
                 });
    reporter.end();
  });
  if (const auto good = bad.pass_over(files)) {
    std::erase_if(found, [](const auto& bytes) { return bytes.empty(); });
    files = *good;
  }
  auto index = std::make_shared<const FileIndex>(
      files.shared_listing(), all_gather_to_nodes(context.nodes, "hand out the index", encode_part(found)));
  if (!signature.empty()) files.kept().change([&](auto& all) { all.indices[signature] = index; });
  return index;
}

}  // namespace rota::internal
