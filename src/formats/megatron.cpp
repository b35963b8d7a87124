#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "catalog/bad_files.hpp"
#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "formats/formats.hpp"
#include "formats/records.hpp"

namespace rota::internal {
namespace {

// X.idx: nine bytes of magic; version (uint64) and type (uint8); how many sequences, and how many entries of
// the document index (uint64); of each sequence its tokens (int32), then of each its first byte in X.bin
// (int64); the document index, which is the first sequence of each document, and the number of sequences
// (int64); where data are multimodal, a mode (int8) of each sequence, which is not read.
constexpr std::string_view kIndexMagic{"MMIDIDX\0\0", 9};
constexpr std::uint64_t kSequencesAt = 9 + 8 + 1;
constexpr std::uint64_t kEntriesAt = kSequencesAt + 8;
constexpr std::uint64_t kIndexHeadBytes = kEntriesAt + 8;
constexpr std::uint64_t kIndexVersion = 1;
constexpr std::array<std::optional<DType>, 9> kElementTypes = {std::nullopt,   DType::uint8,   DType::int8,
                                                               DType::int16,   DType::int32,   DType::int64,
                                                               DType::float64, DType::float32, DType::uint16};

std::string with_ending(std::string name, const char* end) { return name.replace(name.size() - 4, 4, end); }

/// What stands first in an index.
struct IndexHead {
  DType dtype = DType::uint8;
  std::uint64_t sequences = 0;
  std::uint64_t entries = 0;  // of the document index

  [[nodiscard]] std::uint64_t places_at() const noexcept { return kIndexHeadBytes + sequences * 4; }
  [[nodiscard]] std::uint64_t documents_at() const noexcept { return places_at() + sequences * 8; }
};

// Parts of an index lie inside of it, and nothing else does.
void require_sizes(const DatasetFile& file, const IndexHead& head) {
  if (head.sequences > (file.bytes() - kIndexHeadBytes) / 12) {
    throw file.damage(kSequencesAt, "it says that there are {} sequences, more than its {} bytes can tell of",
                      head.sequences, file.bytes());
  }
  const std::uint64_t rest = file.bytes() - head.documents_at();
  if (head.entries > rest / 8) {
    throw file.damage(kEntriesAt,
                      "it says that its document index has {} entries, and {} bytes are left for it; it was "
                      "cut short: restore it",
                      head.entries, rest);
  }
  const std::uint64_t modes = rest - head.entries * 8;
  if (modes == 0 || modes == head.sequences) return;
  throw file.damage(
      file.bytes() - modes,
      "{} bytes follow the document index, and none or one for each of {} sequences were to: restore it",
      modes, head.sequences);
}

IndexHead read_head(const DatasetFile& file) {
  std::array<std::byte, kIndexHeadBytes> bytes{};
  if (file.bytes() < bytes.size()) throw file.damage(0, "it is no index of Megatron-LM, or was cut short");
  file.read(0, bytes);
  if (std::memcmp(bytes.data(), kIndexMagic.data(), kIndexMagic.size()) != 0) {
    throw file.damage(0, "it is no index of Megatron-LM");
  }
  if (const auto version = load<std::uint64_t>(bytes, 9); version != kIndexVersion) {
    throw failure(ErrorCode::unsupported, "open {}: version {} of Megatron-LM's index; rota knows {}",
                  file.path(), version, kIndexVersion);
  }
  const auto code = load<std::uint8_t>(bytes, 17);
  if (code >= kElementTypes.size() || !kElementTypes.at(code))
    throw file.damage(17, "type {} is not known", code);
  const IndexHead head{.dtype = *kElementTypes.at(code),
                       .sequences = load<std::uint64_t>(bytes, kSequencesAt),
                       .entries = load<std::uint64_t>(bytes, kEntriesAt)};
  require_sizes(file, head);
  return head;
}

// Of X.idx, where the sequences lie in `data`, X.bin.
std::vector<ByteRange> read_sequences(const DatasetFile& file, const IndexHead& head,
                                      const DatasetFile& data) {
  std::vector<std::int32_t> lengths(head.sequences);
  std::vector<std::int64_t> places(head.sequences);
  file.read(kIndexHeadBytes, std::as_writable_bytes(std::span(lengths)));
  file.read(head.places_at(), std::as_writable_bytes(std::span(places)));
  std::vector<ByteRange> sequences;
  sequences.reserve(lengths.size());
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto offset = static_cast<std::uint64_t>(places[i]);
    const auto bytes = static_cast<std::uint64_t>(lengths[i]) * size_of(head.dtype);
    if (places[i] < 0 || lengths[i] < 0 || offset > data.bytes() || bytes > data.bytes() - offset) {
      throw file.damage(head.places_at() + i * 8,
                        "sequence {} is {} tokens at byte {} of {}, which has {} bytes", i, lengths[i],
                        places[i], data.path(), data.bytes());
    }
    sequences.push_back({.offset = offset, .bytes = bytes});
  }
  return sequences;
}

// The first sequence of each document, and behind the last.
std::vector<std::int64_t> read_documents(const DatasetFile& file, const IndexHead& head) {
  const auto damaged = [&](std::size_t entry, const std::string& what) {
    return file.damage(head.documents_at() + entry * 8,
                       "its document index {}; restore it, or take each sequence for a sample (the option "
                       "sequence_is_sample)",
                       what);
  };
  std::vector<std::int64_t> begins(head.entries);
  file.read(head.documents_at(), std::as_writable_bytes(std::span(begins)));
  if (begins.empty()) throw damaged(0, "has no entry, and one is the least");
  if (begins.front() != 0) throw damaged(0, fmt::format("begins with {}, and not with 0", begins.front()));
  const auto fall = std::adjacent_find(begins.begin(), begins.end(), std::greater<>());
  if (fall != begins.end()) {
    throw damaged(static_cast<std::size_t>(fall - begins.begin()) + 1,
                  fmt::format("falls from {} to {}", *fall, fall[1]));
  }
  if (begins.back() != static_cast<std::int64_t>(head.sequences)) {
    throw damaged(begins.size() - 1,
                  fmt::format("ends with {}, and there are {} sequences", begins.back(), head.sequences));
  }
  return begins;
}

// The sequences of each document as one.
std::vector<ByteRange> join_documents(const DatasetFile& file, const IndexHead& head,
                                      std::span<const ByteRange> sequences) {
  const std::vector<std::int64_t> begins = read_documents(file, head);
  std::vector<ByteRange> documents;
  documents.reserve(begins.size() - 1);
  std::uint64_t end = 0;  // of the document before: where one without sequences is said to be
  for (std::size_t i = 0; i + 1 < begins.size(); ++i) {
    const auto first = static_cast<std::size_t>(begins[i]);
    const auto last = static_cast<std::size_t>(begins[i + 1]);
    ByteRange document{.offset = first < last ? sequences[first].offset : end, .bytes = 0};
    for (std::size_t k = first; k < last; ++k) {
      if (sequences[k].offset != document.offset + document.bytes) {
        throw failure(
            ErrorCode::unsupported,
            "open {}: byte {}: sequence {} does not follow the one before it, of the same document ({}), in "
            "the file of tokens; take each sequence for a sample (the option sequence_is_sample)",
            file.path(), head.places_at() + k * 8, k, i);
      }
      document.bytes += sequences[k].bytes;
    }
    end = document.offset + document.bytes;
    documents.push_back(document);
  }
  return documents;
}

class MegatronFormat final : public RecordFormat {
 public:
  // `indices` are the files X.idx; this format is one of the files X.bin, in the same order.
  MegatronFormat(FileList indices, DType dtype, const MegatronOptions& options)
      : RecordFormat(options.sequence_is_sample ? "sequences of megatron" : "megatron",
                     {{.name = "tokens", .dtype = dtype, .shape = {}, .ragged = true}}),
        indices_(std::move(indices)),
        options_(options) {}

  [[nodiscard]] RecordIndex index(const DatasetFile& data) const override {
    const DatasetFile file = indices_.open_unchanged(data.number());
    const IndexHead head = read_head(file);
    if (head.dtype != fields()[0].dtype) {
      throw failure(ErrorCode::invalid_argument,
                    "open {}: its tokens are {}, and {} in {}; join files of one type", file.path(),
                    to_string(head.dtype), to_string(fields()[0].dtype), indices_.path(0));
    }
    RecordIndex index{.samples = 0, .ranges = read_sequences(file, head, data), .keys = {}};
    if (!options_.sequence_is_sample) index.ranges = join_documents(file, head, index.ranges);
    index.samples = std::ssize(index.ranges);
    return index;
  }

 private:
  FileList indices_;
  MegatronOptions options_;
};

bool is_idx_name(std::string_view name) { return name.ends_with(".idx"); }

// Whether file i is X.idx, which begins as Megatron-LM's index does, or X.bin beside one.
bool is_megatron(const FileList& files, std::size_t i) {
  const std::string name = (*files.read_names())[i];
  if (!is_idx_name(name) && !name.ends_with(".bin")) return false;
  try {
    const DatasetFile index = files.location().open(with_ending(name, ".idx"), i, Access::cached, nullptr);
    return decompress_head(index, Compression::none, kIndexMagic.size()) == kIndexMagic;
  } catch (const Error& error) {  // of other files, whatever keeps an index from being read
    if (is_idx_name(name) && error.code() != ErrorCode::not_found) throw;
    return false;
  }
}

std::shared_ptr<const Source> open_megatron(const Catalog& catalog, const MegatronOptions& options) {
  FileList indices = files_of(catalog).only(is_idx_name);
  std::vector<std::string> index_names;
  std::vector<std::string> data_names;
  const auto reader = indices.read_names();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::string& name = (*reader)[i];
    if (!is_idx_name(name) && !name.ends_with(".bin")) {
      throw failure(ErrorCode::invalid_argument, "open {}: an index of Megatron-LM is named *.idx",
                    indices.path(i));
    }
    index_names.push_back(with_ending(name, ".idx"));
    data_names.push_back(with_ending(name, ".bin"));
  }
  FileList data = indices.beside(data_names);
  data.expect_as(indices);
  if (indices.size() > 0 && indices.path(0).ends_with(".bin")) indices = indices.beside(index_names);
  const auto dtype = look_into_first(indices, "look into the first index",
                                     [&](const DatasetFile& file) { return read_head(file).dtype; });
  // All that is found in X.bin comes from X.idx.
  const std::string signature =
      fmt::format("{} of megatron {}", options.sequence_is_sample ? "sequences" : "documents",
                  to_string(indices.fingerprint_with_times()));
  auto format = std::make_unique<MegatronFormat>(std::move(indices), dtype, options);
  return make_record_source(std::move(data), std::move(format), signature);
}

}  // namespace

constinit const FormatEntry kMegatronFormat = opened_by<open_megatron>(
    {.name = "megatron",
     .begins = is_megatron,
     .perhaps = {".idx", "an index of Megatron-LM, perhaps: say so (\"megatron\")"},
     .options = {{"sequence_is_sample", option<&MegatronOptions::sequence_is_sample>}}});

}  // namespace rota::internal
