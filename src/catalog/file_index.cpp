#include "catalog/file_index.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "catalog/files.hpp"
#include "catalog/open_context.hpp"
#include "catalog/progress_reporter.hpp"
#include "core/bytes.hpp"
#include "core/mutex.hpp"
#include "core/parallel.hpp"
#include "rota/error.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

// A part: number of files; of each its bytes; then those, each filled up to a multiple of eight.
using Word = std::uint64_t;

[[noreturn]] void fail_index() {
  throw Error(ErrorCode::corrupt, "read an index of files: it is damaged; index the files again");
}

// This rank's files, from one to before another: about as many bytes as the others'.
std::pair<std::size_t, std::size_t> share_of_rank(const FileList& files) {
  const mpi::Communicator& all = files.context().nodes.all();
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

std::vector<std::byte> encode_part(std::span<const std::vector<std::byte>> files) {
  std::size_t bytes = (1 + files.size()) * sizeof(Word);
  for (const auto& file : files) bytes += filled_up(file.size());
  std::vector<std::byte> part(bytes);
  std::byte* at = part.data();
  const auto put = [&at](Word value) {
    std::memcpy(at, &value, sizeof(value));
    at += sizeof(value);
  };
  put(files.size());
  for (const auto& file : files) put(file.size());
  for (const auto& file : files) {
    std::copy(file.begin(), file.end(), at);
    at += filled_up(file.size());
  }
  return part;
}

FileIndex::FileIndex(std::shared_ptr<const Listing> files, NodeBuffer bytes)
    : files_(std::move(files)), bytes_(std::move(bytes)) {
  const std::size_t size = files_->size();
  std::span<const std::byte> rest = bytes_.bytes;
  const auto take_word = [&rest] {
    if (rest.size() < sizeof(Word)) fail_index();
    const Word value = load<Word>(rest);
    rest = rest.subspan(sizeof(Word));
    return value;
  };
  while (!rest.empty()) {
    const Word count = take_word();
    if (count > size - found_.size() || count > rest.size() / sizeof(Word)) fail_index();
    std::span<const std::byte> data = rest.subspan(count * sizeof(Word));
    for (Word i = 0; i < count; ++i) {
      const Word bytes_of_file = take_word();
      if (bytes_of_file > data.size() || filled_up(bytes_of_file) > data.size()) fail_index();
      found_.push_back(data.first(bytes_of_file));
      data = data.subspan(filled_up(bytes_of_file));
    }
    rest = data;
  }
  if (found_.size() != size) fail_index();
}

std::shared_ptr<const FileIndex> index_files(const FileList& files, const std::string& signature,
                                             const LookIntoFile& look) {
  const auto indices = files.kept().get().indices;
  const auto kept = indices.find(signature);
  const std::shared_ptr<const FileIndex> known = kept == indices.end() ? nullptr : kept->second;
  if (known && known->files() == files.listing()) return known;
  const std::vector<std::int64_t> known_as =
      known ? numbers_in(known->files(), files.listing()) : std::vector<std::int64_t>(files.size(), -1);
  const OpenContext& context = files.context();
  const auto range = share_of_rank(files);
  const std::size_t first = range.first;
  std::vector<std::vector<std::byte>> found(range.second - first);
  mpi::together(context.nodes.all(), "index files", [&] {
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
    // Threads take one file after the other, so that none waits for one that has larger ones.
    parallel_for("index files", std::ssize(unknown), 1, context.options.indexing_threads,
                 [&](const LoopPart& part) {
                   const std::size_t i = unknown[static_cast<std::size_t>(part.begin)];
                   DatasetFile file = files.open_unchanged(i);
                   found[i - first] = look(file);
                   reporter.add(1);
                   if (part.is_callers) reporter.look();
                 });
    reporter.end();
  });
  auto index = std::make_shared<const FileIndex>(
      files.shared_listing(), all_gather_to_nodes(context.nodes, "hand out the index", encode_part(found)));
  if (!signature.empty()) files.kept().change([&](auto& all) { all.indices[signature] = index; });
  return index;
}

}  // namespace rota::internal
