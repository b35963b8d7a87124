#include "shards/shard_encoding.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/owned.hpp"
#include "formats/formats.hpp"
#include "formats/mds_columns.hpp"
#include "formats/records.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

/// A tar file in memory, by libarchive.
class TarWriter {
 public:
  explicit TarWriter(bool has_odd_names) : archive_(::archive_write_new()), entry_(::archive_entry_new()) {
    if (archive_ == nullptr || entry_ == nullptr) throw std::bad_alloc();
    require(::archive_write_set_format_pax_restricted(archive_.get()));
    // Else libarchive asks the locale what they mean. It costs a block a member.
    if (has_odd_names) require(::archive_write_set_options(archive_.get(), "hdrcharset=BINARY"));
    require(::archive_write_set_bytes_per_block(archive_.get(), 0));
    require(::archive_write_open(archive_.get(), this, nullptr, write, nullptr));
  }

  void add(const std::string& name, std::span<const std::byte> bytes) {
    ::archive_entry_clear(entry_.get());
    ::archive_entry_set_pathname(entry_.get(), name.c_str());
    ::archive_entry_set_size(entry_.get(), static_cast<la_int64_t>(bytes.size()));
    ::archive_entry_set_filetype(entry_.get(), AE_IFREG);
    ::archive_entry_set_perm(entry_.get(), 0644);
    require(::archive_write_header(archive_.get(), entry_.get()));
    if (bytes.empty()) return;
    const la_ssize_t written = ::archive_write_data(archive_.get(), bytes.data(), bytes.size());
    require(written == static_cast<la_ssize_t>(bytes.size()) ? ARCHIVE_OK : ARCHIVE_FATAL);
  }

  std::string finish() {
    require(::archive_write_close(archive_.get()));
    return std::move(bytes_);
  }

 private:
  static la_ssize_t write(archive* /*tar*/, void* self, const void* bytes, std::size_t count) noexcept {
    auto& tar = *static_cast<TarWriter*>(self);
    tar.error_ = thrown_by([&] { tar.bytes_.append(static_cast<const char*>(bytes), count); });
    return tar.error_ == nullptr ? static_cast<la_ssize_t>(count) : -1;
  }
  void require(int result) const {
    if (error_ != nullptr) std::rethrow_exception(error_);
    if (result == ARCHIVE_OK) return;
    const char* text = ::archive_error_string(archive_.get());
    throw failure(ErrorCode::io, "write a tar file: {}", text == nullptr ? "?" : text);
  }

  std::string bytes_;
  std::exception_ptr error_;  // nothing may be thrown through C
  std::unique_ptr<archive, FreeBy<::archive_write_free>> archive_;
  std::unique_ptr<archive_entry, FreeBy<::archive_entry_free>> entry_;
};

bool is_ascii(const std::string& name) {
  return std::ranges::none_of(name, [](char c) { return (c & 0x80) != 0; });
}

bool are_bytes(const Field& field) {
  return field.dtype == DType::uint8 && field.ragged && field.shape.empty();
}

class TarEncoding final : public ShardEncoding {
 public:
  explicit TarEncoding(const std::vector<Field>& fields) : key_(find_key(fields)), is_file_(is_file(fields)) {
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const Field& field = fields[f];
      if (!are_bytes(field)) {
        throw failure(ErrorCode::unsupported,
                      "write tar files: {} is no bytes; write MDS shards, which have numbers and shapes",
                      describe({field}));
      }
      if (!is_member(f)) continue;
      const bool is_extension = !field.name.empty() && std::ranges::all_of(field.name, [](char c) {
        return c != '/' && c != '\0' && (c < 'A' || c > 'Z');
      });
      if (!is_extension) {
        throw failure(ErrorCode::unsupported,
                      "write tar files: the field \"{}\" cannot be an extension: no capitals, no slash; "
                      "write MDS shards",
                      field.name);
      }
      has_odd_names_ = has_odd_names_ || !is_ascii(field.name);
    }
  }

  [[nodiscard]] std::string_view ending() const override { return ".tar"; }

  // Unless readers find the same samples again.
  void require(const Source& source) const override {
    if (!key_) return;
    const auto refuse = [](const std::string& why) {
      throw failure(ErrorCode::invalid_argument,
                    "write tar files: {}; name samples by number (\"rota shard --numbered\", or open them "
                    "without keys)",
                    why);
    };
    std::unordered_set<std::string> samples;
    std::string ending;
    for (SampleId id{0}; id.value < source.size(); ++id.value) {
      std::int64_t rows = 0;
      source.rows({&id, 1}, *key_, {&rows, 1});
      std::string name(static_cast<std::size_t>(rows), '\0');
      const SampleRows all{id, 0, std::ssize(name), std::as_writable_bytes(std::span(name)).data()};
      source.read_rows(std::span(&all, 1), *key_);
      const std::string member = is_file_ ? name : name + ".x";
      const TarKey key = tar_key(member);
      const bool is_whole = !key.extension.empty() && (is_file_ || (key.sample == name && !name.empty()));
      if (!is_whole) refuse(fmt::format("\"{}\" would be no sample", name));
      if (!samples.emplace(key.sample).second)
        refuse(fmt::format("\"{}\" would be part of one before it", name));
      if (id.value == 0) ending = key.extension;
      if (key.extension != ending)
        refuse(fmt::format("\"{}\" does not end in .{} as others do", name, ending));
    }
  }

  [[nodiscard]] std::uint64_t sample_bytes(std::span<const std::uint64_t> fields) const override {
    constexpr std::uint64_t kBlock = 512;
    std::uint64_t bytes = 0;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      if (is_member(f)) bytes += kBlock + (fields[f] + kBlock - 1) / kBlock * kBlock;
    }
    return bytes;
  }

  [[nodiscard]] std::string encode(const Batch& samples) const override {
    const std::vector<std::string> keys = keys_of(samples);
    TarWriter tar(has_odd_names_ || !std::ranges::all_of(keys, is_ascii));
    for (std::int64_t i = 0; i < samples.size(); ++i) {
      const std::string& key = keys[static_cast<std::size_t>(i)];
      for (std::size_t f = 0; f < samples.fields().size(); ++f) {
        if (is_member(f)) tar.add(is_file_ ? key : key + "." + samples.fields()[f].name, samples.bytes(f, i));
      }
    }
    return tar.finish();
  }

 private:
  // The field that names samples: of a tar file that was read with its keys, or of files with their paths.
  static std::optional<std::size_t> find_key(const std::vector<Field>& fields) {
    if (is_file(fields)) return 1;
    const auto key = std::ranges::find(fields, kKeyField, &Field::name);
    return key == fields.end() ? std::nullopt : std::optional<std::size_t>(key - fields.begin());
  }
  static bool is_file(const std::vector<Field>& fields) {
    return fields.size() == 3 && fields[1].name == kPathField && fields[2].name == kFolderField;
  }
  [[nodiscard]] bool is_member(std::size_t f) const { return !key_ || (f != *key_ && !(is_file_ && f == 2)); }

  // Their numbers, where they have no names.
  [[nodiscard]] std::vector<std::string> keys_of(const Batch& samples) const {
    std::vector<std::string> keys;
    for (std::int64_t i = 0; i < samples.size(); ++i) {
      if (!key_) {
        keys.push_back(fmt::format("{:012}", samples.ids()[static_cast<std::size_t>(i)].value));
        continue;
      }
      const auto bytes = samples.bytes(*key_, i);
      keys.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    return keys;
  }

  std::optional<std::size_t> key_;
  bool is_file_ = false;
  bool has_odd_names_ = false;
};

using nlohmann::json;

void append_number(std::string& to, std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  to.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

class MdsEncoding final : public ShardEncoding {
 public:
  explicit MdsEncoding(const std::vector<Field>& fields) {
    json names = json::array();
    json encodings = json::array();
    json sizes = json::array();
    for (const Field& field : fields) {
      const std::string encoding = mds_encoding(field);
      const bool fits = field.row_bytes() <= std::numeric_limits<std::uint32_t>::max();
      if (encoding.empty() || !fits) {
        throw failure(ErrorCode::unsupported, "write MDS shards: they have no field such as {}",
                      describe({field}));
      }
      std::optional<std::uint32_t> size;
      if (!field.ragged) size = static_cast<std::uint32_t>(field.row_bytes());
      columns_.push_back(make_mds_column(field.name, encoding, size, {}));
      names.push_back(field.name);
      encodings.push_back(encoding);
      sizes.push_back(size ? json(*size) : json());
    }
    shard_ = {{"column_encodings", encodings}, {"column_names", names}, {"column_sizes", sizes},
              {"compression", nullptr},        {"format", "mds"},       {"hashes", json::array()},
              {"size_limit", nullptr},         {"version", 2}};
    try {
      head_ = shard_.dump();
    } catch (const json::exception& error) {
      throw failure(ErrorCode::unsupported, "write MDS shards: the name of a field is not in UTF-8 ({})",
                    error.what());
    }
  }

  [[nodiscard]] std::string_view ending() const override { return ".mds"; }

  [[nodiscard]] std::uint64_t sample_bytes(std::span<const std::uint64_t> fields) const override {
    std::uint64_t bytes = sizeof(std::uint32_t);
    for (const std::uint64_t field : fields) bytes += sizeof(std::uint32_t) + field;
    return bytes;
  }

  // How many samples; where each begins, and the last ends; a part of index.json; samples. A sample: the
  // sizes of columns that differ, then the columns.
  [[nodiscard]] std::string encode(const Batch& samples) const override {
    const auto count = static_cast<std::size_t>(samples.size());
    std::string shard;
    append_number(shard, count);
    shard.resize((count + 2) * sizeof(std::uint32_t));
    shard += head_;
    for (std::size_t i = 0; i <= count; ++i) {
      if (shard.size() > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(ErrorCode::unsupported,
                    "write MDS shards: one would have more than 4 GiB; choose smaller ones");
      }
      const auto begin = static_cast<std::uint32_t>(shard.size());
      std::memcpy(shard.data() + (i + 1) * sizeof(begin), &begin, sizeof(begin));
      if (i < count) append_sample(shard, samples, static_cast<std::int64_t>(i));
    }
    return shard;
  }

  [[nodiscard]] std::string index(std::span<const WrittenShard> shards) const override {
    json all = json::array();
    for (const WrittenShard& shard : shards) {
      json one = shard_;
      one["raw_data"] = {{"basename", shard.name}, {"bytes", shard.bytes}, {"hashes", json::object()}};
      one["samples"] = shard.samples;
      one["zip_data"] = nullptr;
      all.push_back(std::move(one));
    }
    return json{{"shards", all}, {"version", 2}}.dump();
  }

 private:
  void append_sample(std::string& shard, const Batch& samples, std::int64_t i) const {
    std::string values;
    for (std::size_t f = 0; f < columns_.size(); ++f) {
      const auto bytes = samples.bytes(f, i);
      const std::size_t before = values.size();
      if (columns_[f].has_shape) append_mds_shape(values, bytes.size() / columns_[f].field->row_bytes());
      values.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      if (columns_[f].field->ragged) append_number(shard, values.size() - before);
    }
    shard += values;
  }

  std::vector<MdsColumn> columns_;
  json shard_;  // of index.json: what all shards have
  std::string head_;
};

constexpr std::size_t kRecordBytes = 16;  // beside its content

/// A record of each sample.
class TfRecordEncoding final : public ShardEncoding {
 public:
  explicit TfRecordEncoding(const std::vector<Field>& fields) {
    if (fields.size() == 1 && are_bytes(fields.front())) return;
    throw failure(ErrorCode::unsupported,
                  "write TFRecord files: a record is bytes, and samples are {}; write MDS shards",
                  describe(fields));
  }

  [[nodiscard]] std::string_view ending() const override { return ".tfrecord"; }
  [[nodiscard]] std::uint64_t sample_bytes(std::span<const std::uint64_t> fields) const override {
    return kRecordBytes + fields.front();
  }
  [[nodiscard]] std::string encode(const Batch& samples) const override {
    std::string shard;
    shard.reserve(samples.tensor(0).bytes.size() + kRecordBytes * static_cast<std::size_t>(samples.size()));
    for (std::int64_t i = 0; i < samples.size(); ++i) append_tfrecord(shard, samples.bytes(0, i));
    return shard;
  }
};

}  // namespace

std::unique_ptr<const ShardEncoding> make_encoding(ShardOptions::Format format,
                                                   const std::vector<Field>& fields) {
  if (format == ShardOptions::Format::tar) return std::make_unique<const TarEncoding>(fields);
  if (format == ShardOptions::Format::mds) return std::make_unique<const MdsEncoding>(fields);
  return std::make_unique<const TfRecordEncoding>(fields);
}

}  // namespace rota::internal
