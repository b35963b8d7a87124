#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "catalog/packing.hpp"
#include "rota/error.hpp"
#include "source/formats.hpp"
#include "source/records.hpp"

namespace rota {
namespace {

// X.idx: nine bytes of magic; version (uint64) and type (uint8); numbers of sequences and of documents, plus
// one (uint64); of each sequence its tokens (int32) and its first byte in X.bin (int64); then where documents
// begin.
constexpr std::string_view kMagic{"MMIDIDX\0\0", 9};
constexpr std::size_t kHeadBytes = 9 + 8 + 1 + 8 + 8;
constexpr std::uint64_t kVersion = 1;
constexpr std::array<std::optional<DType>, 9> kTypes = {std::nullopt,   DType::uint8,   DType::int8,
                                                        DType::int16,   DType::int32,   DType::int64,
                                                        DType::float64, DType::float32, DType::uint16};

std::string bin_name(const std::string& idx) { return idx.substr(0, idx.size() - 4) + ".bin"; }

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

/// What stands first in an index.
struct Head {
  DType dtype = DType::uint8;
  std::uint64_t sequences = 0;
};

Head read_head(const RecordFile& file) {
  std::array<std::byte, kHeadBytes> bytes{};
  if (file.bytes() < bytes.size()) throw file.damage(0, "it is no index of Megatron-LM, or was cut short");
  file.read(0, bytes);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw file.damage(0, "it is no index of Megatron-LM");
  }
  if (const auto version = get<std::uint64_t>(bytes, 9); version != kVersion) {
    throw Error(ErrorCode::unsupported,
                fmt::format("open {}: version {} of Megatron-LM's index; rota knows {}", file.path(), version,
                            kVersion));
  }
  const auto code = get<std::uint8_t>(bytes, 17);
  if (code >= kTypes.size() || !kTypes.at(code))
    throw file.damage(17, fmt::format("type {} is not known", code));
  const Head head{.dtype = *kTypes.at(code), .sequences = get<std::uint64_t>(bytes, 18)};
  if (head.sequences > (file.bytes() - kHeadBytes) / 12) {
    throw file.damage(18,
                      fmt::format("it says that there are {} sequences, more than its {} bytes can tell of",
                                  head.sequences, file.bytes()));
  }
  return head;
}

class MegatronFormat final : public RecordFormat {
 public:
  // `indices` are the files X.idx; this format is one of the files X.bin, in the same order.
  MegatronFormat(FileList indices, DType dtype)
      : indices_(std::move(indices)),
        fields_{{.name = "tokens", .dtype = dtype, .shape = {}, .ragged = true}} {}

  [[nodiscard]] std::string_view name() const override { return "megatron"; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  [[nodiscard]] RecordIndex index(const RecordFile& data) const override {
    const Descriptor opened = indices_.open(data.index);
    const RecordFile file{.files = indices_, .index = data.index, .fd = opened.get()};
    const Head head = read_head(file);
    if (head.dtype != fields_[0].dtype) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("open {}: its tokens are {}, and {} in {}; join files of one type", file.path(),
                              to_string(head.dtype), to_string(fields_[0].dtype), indices_.path(0)));
    }
    std::vector<std::int32_t> lengths(head.sequences);
    std::vector<std::int64_t> places(head.sequences);
    file.read(kHeadBytes, std::as_writable_bytes(std::span(lengths)));
    file.read(kHeadBytes + lengths.size() * sizeof(lengths[0]), std::as_writable_bytes(std::span(places)));
    RecordIndex index{.samples = std::ssize(lengths), .ranges = {}, .keys = {}};
    index.ranges.reserve(lengths.size());
    const std::size_t token_bytes = size_of(head.dtype);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto offset = static_cast<std::uint64_t>(places[i]);
      const auto bytes = static_cast<std::uint64_t>(lengths[i]) * token_bytes;
      if (places[i] < 0 || lengths[i] < 0 || offset > data.bytes() || bytes > data.bytes() - offset) {
        throw file.damage(kHeadBytes + lengths.size() * 4 + i * 8,
                          fmt::format("sequence {} is {} tokens at byte {} of {}, which has {} bytes", i,
                                      lengths[i], places[i], data.path(), data.bytes()));
      }
      index.ranges.push_back({.offset = offset, .bytes = bytes});
    }
    return index;
  }

 private:
  FileList indices_;
  std::vector<Field> fields_;
};

bool is_idx_name(std::string_view name) { return name.ends_with(".idx"); }

}  // namespace

std::unique_ptr<const Source> open_megatron(const Catalog& catalog) {
  FileList indices = files_of(catalog).only(is_idx_name);
  std::vector<std::string> names;
  const auto reader = indices.read_names();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::string& name = (*reader)[i];
    if (!is_idx_name(name)) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("open {}: an index of Megatron-LM is named *.idx", indices.path(i)));
    }
    names.push_back(bin_name(name));
  }
  FileList data = indices.beside(names);
  data.expect_as(indices);
  const auto dtype = made_on_first_rank(indices.crew(), "look into the first index", [&] {
    const Descriptor opened = indices.open(std::size_t{0});
    return read_head({.files = indices, .index = 0, .fd = opened.get()}).dtype;
  });
  // All that is found in X.bin comes from X.idx.
  const std::string signature = fmt::format("megatron {}", to_string(indices.fingerprint_with_times()));
  auto format = std::make_unique<MegatronFormat>(std::move(indices), dtype);
  return make_record_source(std::move(data), std::move(format), signature);
}

}  // namespace rota
