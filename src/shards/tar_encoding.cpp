#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "formats/records.hpp"
#include "rota/error.hpp"
#include "shards/shard_encoding.hpp"
#include "source/field_check.hpp"
#include "values/owned.hpp"

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
    try {
      static_cast<TarWriter*>(self)->bytes_.append(static_cast<const char*>(bytes), count);
      return static_cast<la_ssize_t>(count);
    } catch (...) {  // nothing may be thrown through C
      static_cast<TarWriter*>(self)->has_no_memory_ = true;
      return -1;
    }
  }
  void require(int result) const {
    if (has_no_memory_) throw std::bad_alloc();
    if (result == ARCHIVE_OK) return;
    const char* text = ::archive_error_string(archive_.get());
    throw Error(ErrorCode::io, fmt::format("write a tar file: {}", text == nullptr ? "?" : text));
  }

  std::string bytes_;
  bool has_no_memory_ = false;
  std::unique_ptr<archive, FreeBy<::archive_write_free>> archive_;
  std::unique_ptr<archive_entry, FreeBy<::archive_entry_free>> entry_;
};

class TarEncoding final : public ShardEncoding {
 public:
  explicit TarEncoding(const std::vector<Field>& fields) {
    for (const Field& field : fields) {
      const bool are_bytes = field.dtype == DType::uint8 && field.ragged && field.shape.empty();
      if (!are_bytes) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("write tar files: {} is no bytes; write MDS shards, which have numbers and "
                                "shapes",
                                describe({field})));
      }
      const bool is_extension =
          !field.name.empty() && field.name != kKeyField && std::ranges::all_of(field.name, [](char c) {
            return c != '/' && c != '\0' && (c < 'A' || c > 'Z');
          });
      if (!is_extension) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("write tar files: the field \"{}\" cannot be an extension: no capitals, no "
                                "slash, and not {}; write MDS shards",
                                field.name, kKeyField));
      }
      const bool is_ascii = std::ranges::none_of(field.name, [](char c) { return (c & 0x80) != 0; });
      has_odd_names_ = has_odd_names_ || !is_ascii;
    }
  }

  [[nodiscard]] std::string_view ending() const override { return ".tar"; }

  [[nodiscard]] std::uint64_t sample_bytes(std::span<const std::uint64_t> fields) const override {
    constexpr std::uint64_t kBlock = 512;
    std::uint64_t bytes = 0;
    for (const std::uint64_t field : fields) bytes += kBlock + (field + kBlock - 1) / kBlock * kBlock;
    return bytes;
  }

  [[nodiscard]] std::string encode(const Batch& samples) const override {
    TarWriter tar(has_odd_names_);
    const auto ids = samples.ids();
    for (std::int64_t i = 0; i < samples.size(); ++i) {
      for (std::size_t f = 0; f < samples.fields().size(); ++f) {
        tar.add(fmt::format("{:012}.{}", ids[static_cast<std::size_t>(i)].value, samples.fields()[f].name),
                samples.bytes(f, i));
      }
    }
    return tar.finish();
  }

  [[nodiscard]] std::string index(std::span<const WrittenShard> /*shards*/) const override { return {}; }

 private:
  bool has_odd_names_ = false;
};

}  // namespace

std::unique_ptr<const ShardEncoding> make_tar_encoding(const std::vector<Field>& fields) {
  return std::make_unique<const TarEncoding>(fields);
}

}  // namespace rota::internal
