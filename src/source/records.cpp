#include "source/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <exception>
#include <thread>
#include <utility>

#include "rota/error.hpp"
#include "rota/types.hpp"
#include "source/open_files.hpp"

namespace rota {
namespace {

constexpr std::size_t kLeastWindow = 4 << 10;
constexpr std::size_t kMostWindow = 1 << 20;

class RecordSource final : public Source {
 public:
  RecordSource(FileList files, std::unique_ptr<const RecordFormat> format, std::vector<RecordIndex> indices)
      : files_(std::move(files)),
        format_(std::move(format)),
        indices_(std::move(indices)),
        fields_(format_->fields()) {
    for (const RecordIndex& index : indices_) samples_.add(index.samples);
    if (format_->has_key_field()) fields_.push_back({.name = std::string(kKeyField), .ragged = true});
    fingerprint_ = digest();
  }

  [[nodiscard]] std::int64_t size() const override { return samples_.total(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    assert(fields_[field].ragged && out.size() == ids.size());
    check_ids(*this, ids);
    const std::size_t row_bytes = fields_[field].row_bytes();
    FileSamples::Place place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples_.find(ids[i].value, place.file);
      const std::size_t bytes = is_key(field) ? key(place).size() : range(place, field).bytes;
      out[i] = static_cast<std::int64_t>(bytes / row_bytes);
    }
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    FileSamples::Place place;
    for (std::size_t i = 0; i < ids.size();) {
      place = samples_.find(ids[i].value, place.file);
      const std::size_t file = place.file;
      const OpenFiles::Handle opened = files_.open(file);
      const RecordFile record_file{.files = files_.list(), .index = file, .fd = opened.get()};
      for (; i < ids.size() && (place = samples_.find(ids[i].value, file)).file == file; ++i) {
        for (std::size_t field = 0; field < format_->fields().size(); ++field) {
          const ByteRange& bytes = range(place, field);
          assert(out.bytes(field, i).size() == bytes.bytes);
          format_->read(record_file, field, bytes, out.bytes(field, i));
        }
        if (format_->has_key_field()) copy_key(place, out.bytes(fields_.size() - 1, i));
      }
    }
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const FileSamples::Place place = samples_.find(id.value);
    const std::string text = fmt::format("{}, record {} at byte {}", files_.list().path(place.file),
                                         place.sample, range(place, 0).offset);
    return indices_[place.file].keys.size() == 0 ? text : fmt::format("{}, \"{}\"", text, key(place));
  }

  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    const auto files = static_cast<std::int64_t>(files_.list().size());
    if (files == 1 || shards > files) return {};
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(shards));
    for (std::int64_t s = 0; s < shards; ++s) {
      const auto first = static_cast<std::size_t>(share(files, s, shards));
      const auto last = static_cast<std::size_t>(share(files, s + 1, shards)) - 1;
      lengths[static_cast<std::size_t>(s)] =
          samples_.first(last) + samples_.count(last) - samples_.first(first);
    }
    return lengths;
  }

 private:
  [[nodiscard]] bool is_key(std::size_t field) const noexcept { return field == format_->fields().size(); }
  [[nodiscard]] std::string key(const FileSamples::Place& place) const {
    return indices_[place.file].keys[static_cast<std::size_t>(place.sample)];
  }
  void copy_key(const FileSamples::Place& place, std::span<std::byte> to) const {
    const std::string text = key(place);
    assert(text.size() == to.size());
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), to.begin());
  }

  [[nodiscard]] const ByteRange& range(const FileSamples::Place& place, std::size_t field) const noexcept {
    const std::size_t fields = format_->fields().size();
    return indices_[place.file].ranges[static_cast<std::size_t>(place.sample) * fields + field];
  }

  [[nodiscard]] Fingerprint digest() const {
    const FileList& files = files_.list();
    FingerprintBuilder builder;
    builder.add(format_->name()).add(static_cast<std::int64_t>(files.size()));
    for (const Field& field : fields_) {
      builder.add(field.name).add(to_string(field.dtype)).add(field.shape).add(field.ragged ? 1 : 0);
    }
    NameReader names(files.names());
    for (std::size_t i = 0; i < files.size(); ++i) {
      builder.add(names[i]).add(files.bytes(i)).add(indices_[i].samples);
    }
    return builder.finish();
  }

  OpenFiles files_;
  std::unique_ptr<const RecordFormat> format_;
  std::vector<RecordIndex> indices_;
  std::vector<Field> fields_;
  FileSamples samples_;
  Fingerprint fingerprint_;
};

}  // namespace

Error RecordFile::damage(std::uint64_t offset, std::string_view what) const {
  return {ErrorCode::corrupt, fmt::format("read {}: byte {}: {}", path(), offset, what)};
}

void RecordFile::read(std::uint64_t offset, std::span<std::byte> to) const {
  const std::int64_t got = read_at(fd, to, offset);
  if (got < 0) throw Error(ErrorCode::io, system_error("read", path(), errno).what());
  if (static_cast<std::size_t>(got) == to.size()) return;
  throw damage(
      offset + static_cast<std::uint64_t>(got),
      fmt::format("the file ends here, and {} more bytes were to follow; it was cut short: restore it",
                  to.size() - static_cast<std::size_t>(got)));
}

// Threads take one file after the other, so that none waits for one that has larger ones.
void visit_files(const FileList& files, int threads, const std::function<void(std::size_t)>& visit) {
  std::vector<std::exception_ptr> errors(files.size());
  std::atomic<std::size_t> next = 0;
  const auto take_files = [&]() noexcept {
    for (std::size_t i = 0; (i = next++) < files.size();) {
      try {
        visit(i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = files.size();
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    const auto count = std::min<std::size_t>(static_cast<std::size_t>(threads), files.size());
    for (std::size_t t = 1; t < count; ++t) workers.emplace_back(take_files);
    take_files();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void require_threads(std::string_view what, int threads) {
  if (threads >= 1) return;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: indexing_threads is {}; use 1 or more", what, threads));
}

void refuse_compressed(const RecordFile& file) {
  using namespace std::string_view_literals;
  std::array<char, 6> head{};
  const std::int64_t got = read_at(file.fd, std::as_writable_bytes(std::span(head)), 0);
  const std::string_view text(head.data(), static_cast<std::size_t>(std::max<std::int64_t>(got, 0)));
  for (const auto& [magic, name] : {std::pair{"\x1F\x8B"sv, "gzip"},
                                    {"BZh"sv, "bzip2"},
                                    {"\xFD"
                                     "7zXZ\0"sv,
                                     "xz"},
                                    {"\x28\xB5\x2F\xFD"sv, "zstd"},
                                    {"\x04\x22\x4D\x18"sv, "LZ4"}}) {
    if (!text.starts_with(magic)) continue;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("open {}: it is compressed ({}), and samples cannot be read from its middle; unpack "
                    "it first",
                    file.path(), name));
  }
}

void RecordFormat::read(const RecordFile& file, std::size_t /*field*/, const ByteRange& range,
                        std::span<std::byte> to) const {
  file.read(range.offset, to);
}

std::unique_ptr<const Source> make_record_source(FileList files, std::unique_ptr<const RecordFormat> format,
                                                 int threads) {
  std::vector<RecordIndex> indices(files.size());
  visit_files(files, threads, [&](std::size_t i) {
    const Descriptor opened = files.open(i);
    indices[i] = format->index({.files = files, .index = i, .fd = opened.get()});
  });
  return std::make_unique<RecordSource>(std::move(files), std::move(format), std::move(indices));
}

std::span<const std::byte> Scan::at(std::uint64_t offset, std::size_t count) {
  if (offset < begin_ || offset + count > begin_ + size_) {
    const bool is_near = offset >= begin_ && offset <= begin_ + size_;
    next_bytes_ = std::clamp(is_near ? 2 * next_bytes_ : 0, kLeastWindow, kMostWindow);
    window_.resize(std::max(count, next_bytes_));
    begin_ = offset;
    size_ = 0;
    const std::int64_t got = read_at(file_.fd, window_, offset);
    if (got < 0) throw Error(ErrorCode::io, system_error("read", file_.path(), errno).what());
    size_ = static_cast<std::size_t>(got);
  }
  const std::size_t skipped = offset - begin_;
  return std::span<const std::byte>(window_).subspan(skipped, std::min(count, size_ - skipped));
}

}  // namespace rota
