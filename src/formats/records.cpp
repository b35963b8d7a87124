#include "formats/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "core/parallel.hpp"
#include "files/reads.hpp"
#include "formats/open_files.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

/// Where the samples of one file lie: at equal distances, or as an index says that a catalog can keep, read
/// where it lies.
struct RecordTable {
  std::int64_t samples = 0;
  FileEncoding encoding = {};
  std::uint64_t first = 0;                 // byte of sample 0, where they lie at equal distances
  std::span<const ByteRange> ranges = {};  // of each sample one per field, where not
  NameTable keys = {};
};

std::vector<std::byte> encode_index(const RecordIndex& index, const FileEncoding& as) {
  ByteWriter bytes;
  bytes.add(index.samples);
  bytes.add<std::uint64_t>(index.ranges.size());
  bytes.add(static_cast<std::uint64_t>(as.compression));
  bytes.add(as.raw_bytes);
  bytes.add_bytes(std::as_bytes(std::span(index.ranges)));
  if (index.keys.size() > 0) bytes.add_bytes(index.keys.bytes());
  return std::move(bytes).take();
}

// Of a format with so many fields. Throws Error{corrupt} for bytes that are no index.
RecordTable decode_index(std::span<const std::byte> bytes, std::size_t fields) {
  ByteReader rest(bytes, "read an index of samples, which is damaged (index the files again)");
  RecordTable table{.samples = rest.next<std::int64_t>()};
  const auto ranges = rest.next<std::uint64_t>();
  const auto compression = rest.next<std::uint64_t>();
  table.encoding = {.compression = static_cast<Compression>(compression),
                    .raw_bytes = rest.next<std::int64_t>()};
  const bool is_whole = ranges <= rest.rest().size() / sizeof(ByteRange) && ranges % fields == 0 &&
                        std::cmp_equal(ranges / fields, table.samples) && table.encoding.raw_bytes >= 0 &&
                        compression <= static_cast<std::uint64_t>(Compression::other);
  if (!is_whole) rest.fail("its numbers do not go together");
  table.ranges = {reinterpret_cast<const ByteRange*>(rest.next_bytes(ranges * sizeof(ByteRange)).data()),
                  ranges};
  if (rest.at_end()) return table;
  table.keys = NameTable(rest.rest(), nullptr);
  if (std::cmp_not_equal(table.keys.size(), table.samples)) rest.fail("its numbers do not go together");
  return table;
}

// Looks into `file`, or into what it decompresses to.
std::vector<std::byte> index_file(const RecordFormat& format, const FileList& files, DatasetFile& file) {
  file.read_on();
  FileEncoding as = format.encoding(file);
  if (as.compression == Compression::none) {
    as.raw_bytes = static_cast<std::int64_t>(file.bytes());
    return encode_index(format.index(file), as);
  }
  const DatasetFile decompressed = decompress_file(files, file.number(), as);
  as.raw_bytes = static_cast<std::int64_t>(decompressed.bytes());
  return encode_index(format.index(decompressed), as);
}

// Of samples that need no index.
class StridedFormat final : public RecordFormat {
 public:
  using RecordFormat::RecordFormat;
  [[nodiscard]] RecordIndex index(const DatasetFile& /*file*/) const override { return {}; }
};

class RecordSource final : public FileSource {
 public:
  RecordSource(FileList files, std::shared_ptr<SharedFiles> shared,
               std::unique_ptr<const RecordFormat> format, std::shared_ptr<const FileIndex> index,
               std::vector<RecordTable> tables, std::optional<std::uint64_t> stride_bytes)
      : FileSource(
            std::move(files), std::move(shared), all_fields(*format),
            [&](std::size_t i) { return tables[i].samples; }, format->foot_bytes() == 0),
        format_(std::move(format)),
        index_(std::move(index)),
        tables_(std::move(tables)),
        stride_bytes_(stride_bytes) {}

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    assert(fields()[field].ragged && out.size() == ids.size());
    check_ids(*this, ids);
    const std::size_t row_bytes = fields()[field].row_bytes();
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      const std::size_t bytes = is_key(field) ? key(place).size() : range(place, field).bytes;
      out[i] = static_cast<std::int64_t>(bytes / row_bytes);
    }
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    const std::size_t stored = format_->fields().size();
    std::vector<Part> parts;
    parts.reserve(ids.size() * stored);
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      for (std::size_t field = 0; field < stored; ++field) {
        const ByteRange record = range(place, field);
        if (out.bytes(field, i).size() != record.bytes) {
          throw failure(ErrorCode::corrupt,
                        "read {}: its index says {} bytes of a sample of {} (index the files again)",
                        files().list().path(place.file), record.bytes, out.bytes(field, i).size());
        }
        add_part({place.file, field, record, 0, out.bytes(field, i)}, parts);
      }
      if (format_->has_key_field()) copy_key(place, 0, out.bytes(stored, i));
    }
    read_parts(parts);
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    assert(fields()[field].ragged);
    check_ids(*this, wanted);
    std::vector<Part> parts;
    parts.reserve(wanted.size());
    const std::size_t row_bytes = fields()[field].row_bytes();
    FileSamples::SamplePlace place;
    for (const SampleRows& rows : wanted) {
      place = samples().find(rows.id.value, place.file);
      const ByteRange record = is_key(field) ? ByteRange{0, key(place).size()} : range(place, field);
      check_rows(rows, static_cast<std::int64_t>(record.bytes / row_bytes));
      const std::size_t skipped = static_cast<std::size_t>(rows.first) * row_bytes;
      const std::span to(rows.to, static_cast<std::size_t>(rows.count) * row_bytes);
      if (is_key(field)) {
        copy_key(place, skipped, to);
      } else if (!to.empty()) {
        parts.push_back({place.file, field, record, skipped, to});
      }
    }
    read_parts(parts);
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const FileSamples::SamplePlace place = samples().find(id.value);
    const std::string text = fmt::format("{}, record {} at byte {}", files().list().path(place.file),
                                         place.sample, range(place, 0).offset);
    const bool has_key = tables_[place.file].keys.size() > 0;
    return has_key ? fmt::format("{}, \"{}\"", text, key(place)) : text;
  }

  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return stride_bytes_ && !files().is_shared() ? std::vector<std::int64_t>()
                                                 : samples().shard_lengths(shards);
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder builder;
    builder.add(format_->name())
        .add(to_string(format_->identity(files().list()).value_or(files().list().fingerprint())));
    for (const Field& field : fields()) {
      if (!stride_bytes_) builder.add(field.name);
      builder.add(to_string(field.dtype)).add(field.shape);
      builder.add(stride_bytes_ ? static_cast<std::int64_t>(*stride_bytes_) : field.ragged ? 1 : 0);
    }
    for (std::size_t i = 0; i < files().list().size(); ++i) builder.add(samples().count(i));
    return builder.finish();
  }

 private:
  // From the first record to the last, with what lies between.
  [[nodiscard]] std::int64_t will_read_in(std::size_t file, std::int64_t first,
                                          std::int64_t count) const override {
    const ByteRange last = range({file, first + count - 1}, format_->fields().size() - 1);
    return files().will_read(file, range({file, first}, 0).offset, last.offset + last.bytes);
  }

  static std::vector<Field> all_fields(const RecordFormat& format) {
    std::vector<Field> fields = format.fields();
    if (format.has_key_field()) fields.push_back({.name = std::string(kKeyField), .ragged = true});
    return fields;
  }
  [[nodiscard]] bool is_key(std::size_t field) const noexcept { return field == format_->fields().size(); }
  [[nodiscard]] std::string key(const FileSamples::SamplePlace& place) const {
    return tables_[place.file].keys[static_cast<std::size_t>(place.sample)];
  }

  /// A part of one field of a sample, and where it belongs.
  struct Part {
    std::size_t file;
    std::size_t field;
    ByteRange record;
    std::size_t skipped;  // bytes of the record
    std::span<std::byte> to;
    const DatasetFile* opened = nullptr;

    [[nodiscard]] std::uint64_t offset() const noexcept { return record.offset + skipped; }
    [[nodiscard]] bool is_whole() const noexcept { return to.size() == record.bytes; }
    [[nodiscard]] bool is_of_record(const Part& other) const noexcept {
      return file == other.file && field == other.field && record.offset == other.record.offset &&
             record.bytes == other.record.bytes;
    }
    friend bool operator<(const Part& a, const Part& b) noexcept {
      return a.file != b.file ? a.file < b.file : a.offset() < b.offset();
    }
  };

  // Samples at equal distances that follow one another in file and memory make one part.
  void add_part(const Part& part, std::vector<Part>& parts) const {
    if (stride_bytes_ && !parts.empty() && parts.back().file == part.file &&
        parts.back().offset() + parts.back().to.size() == part.offset() &&
        parts.back().to.data() + parts.back().to.size() == part.to.data()) {
      parts.back().to = {parts.back().to.data(), parts.back().to.size() + part.to.size()};
    } else {
      parts.push_back(part);
    }
  }

  // In the order in which they lie on disk. All are looked up before: looking up one waits for memory, and
  // the processor looks up several meanwhile.
  void read_parts(std::vector<Part>& parts) const {
    if (!files().are_mapped()) std::sort(parts.begin(), parts.end());
    std::vector<OpenFiles::SharedFile> opened;
    for (std::span<Part> rest = parts; !rest.empty();) {
      opened.clear();
      std::size_t count = 0;
      for (; count < rest.size(); ++count) {
        if (count == 0 || rest[count].file != rest[count - 1].file) {
          if (opened.size() == files().most_together()) break;
          opened.push_back(files().open(rest[count].file));
        }
        rest[count].opened = opened.back().get();
      }
      read_opened(rest.first(count));
      rest = rest.subspan(count);
    }
  }

  void read_opened(std::span<const Part> parts) const {
    std::vector<WantedBytes> plain;
    std::vector<Part> checked;
    std::vector<Part> encoded;
    plain.reserve(parts.size());
    for (const Part& part : parts) {
      if (format_->has_plain_ranges(*part.opened)) {
        plain.push_back({.file = part.opened, .offset = part.offset(), .to = part.to});
      } else {
        (format_->foot_bytes() > 0 && part.is_whole() ? checked : encoded).push_back(part);
      }
    }
    files().read(plain);
    read_checked(checked);
    read_encoded(encoded);
  }

  // Whole records, and what tells that they are as they were written.
  void read_checked(std::span<const Part> parts) const {
    const std::size_t foot_bytes = format_->foot_bytes();
    std::vector<std::byte> feet(parts.size() * foot_bytes);
    const auto foot = [&](std::size_t i) { return std::span(feet).subspan(i * foot_bytes, foot_bytes); };
    std::vector<WantedBytes> wanted;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const auto& [file, field, record, skipped, to, opened] = parts[i];
      wanted.push_back({.file = opened, .offset = record.offset, .to = to});
      wanted.push_back({.file = opened, .offset = record.offset + record.bytes, .to = foot(i)});
    }
    std::ranges::sort(wanted, [](const WantedBytes& a, const WantedBytes& b) {  // records may be wanted twice
      return a.file != b.file ? a.file->number() < b.file->number() : a.offset < b.offset;
    });
    files().read(wanted);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      format_->check(*parts[i].opened, parts[i].record, parts[i].to, foot(i));
    }
  }

  /// A record that had to be read as a whole; the next part may be of the same.
  struct LastRecord {
    const Part* part = nullptr;
    std::vector<std::byte> bytes = {};
  };

  void read_encoded(std::span<const Part> parts) const {
    if (!parts.empty() && parts[0].opened->storage() != nullptr) return read_stored(parts);
    LastRecord record;
    auto next = parts.begin();
    auto oldest = parts.begin();
    const auto begin = [&]() -> std::optional<std::size_t> {
      if (next == parts.end()) return std::nullopt;
      const Part& part = *next++;
      part.opened->will_read(part.record.offset, part.record.bytes);
      return part.record.bytes;
    };
    read_ahead(begin, [&] { read_part(*oldest++, record); });
  }

  // Records of a storage, whose answers are long on their way, beside each other.
  void read_stored(std::span<const Part> parts) const {
    std::vector<std::size_t> begins;  // of the parts of each record
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i == 0 || !parts[i].is_of_record(parts[i - 1])) begins.push_back(i);
    }
    begins.push_back(parts.size());
    parallel_for("read records", std::ssize(begins) - 1, 1, kStoredAtOnce, [&](const LoopPart& part) {
      LastRecord record;
      const auto r = static_cast<std::size_t>(part.begin);
      for (std::size_t i = begins[r]; i < begins[r + 1]; ++i) read_part(parts[i], record);
    });
  }

  void read_whole(const Part& part) const {
    if (format_->foot_bytes() == 0) return format_->read(*part.opened, part.field, part.record, part.to);
    read_checked({&part, 1});
  }

  void read_part(const Part& part, LastRecord& last) const {
    if (part.is_whole()) return read_whole(part);
    if (last.part == nullptr || !part.is_of_record(*last.part)) {
      last.bytes.assign(part.record.bytes, {});
      read_whole({part.file, part.field, part.record, 0, last.bytes, part.opened});
      last.part = &part;
    }
    std::copy_n(last.bytes.begin() + static_cast<std::ptrdiff_t>(part.skipped), part.to.size(),
                part.to.begin());
  }

  // From byte `skipped` of the key on.
  void copy_key(const FileSamples::SamplePlace& place, std::size_t skipped, std::span<std::byte> to) const {
    const std::string text = key(place);
    assert(skipped + to.size() <= text.size());
    std::copy_n(std::as_bytes(std::span(text)).begin() + static_cast<std::ptrdiff_t>(skipped), to.size(),
                to.begin());
  }

  [[nodiscard]] ByteRange range(const FileSamples::SamplePlace& place, std::size_t field) const noexcept {
    const auto sample = static_cast<std::size_t>(place.sample);
    const RecordTable& table = tables_[place.file];
    if (!stride_bytes_) return table.ranges[sample * format_->fields().size() + field];
    return {.offset = table.first + sample * *stride_bytes_, .bytes = fields()[0].row_bytes()};
  }

  std::unique_ptr<const RecordFormat> format_;
  std::shared_ptr<const FileIndex> index_;     // which has what the tables say
  std::vector<RecordTable> tables_;            // of each file
  std::optional<std::uint64_t> stride_bytes_;  // of samples that lie at equal distances
};

std::shared_ptr<const Source> open_records(FileList files, std::unique_ptr<const RecordFormat> format,
                                           std::shared_ptr<const FileIndex> index,
                                           std::vector<RecordTable> tables,
                                           std::optional<std::uint64_t> stride_bytes) {
  std::vector<FileEncoding> encodings;
  encodings.reserve(tables.size());
  for (const RecordTable& table : tables) encodings.push_back(table.encoding);
  auto shared = SharedFiles::make(files, std::move(encodings));
  const auto context = files.shared_context();
  return made_together(*context, "open files", [&] {
    return std::make_unique<RecordSource>(std::move(files), std::move(shared), std::move(format),
                                          std::move(index), std::move(tables), stride_bytes);
  });
}

}  // namespace

std::shared_ptr<const Source> make_record_source(FileList files, std::unique_ptr<const RecordFormat> format,
                                                 const std::string& signature) {
  // Of what is kept since files may be compressed.
  const std::string kept_as = signature.empty() ? signature : signature + ", packed or not";
  auto index =
      index_files(files, kept_as, [&](DatasetFile& file) { return index_file(*format, files, file); });
  std::vector<RecordTable> tables;
  for (std::size_t i = 0; i < files.size(); ++i)
    tables.push_back(decode_index((*index)[i], format->fields().size()));
  return open_records(std::move(files), std::move(format), std::move(index), std::move(tables), {});
}

std::shared_ptr<const Source> make_strided_source(FileList files, const StridedLayout& layout) {
  std::vector<RecordTable> tables;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [first, samples] = layout.files[i];
    tables.push_back({.samples = samples, .encoding = {.raw_bytes = files.bytes(i)}, .first = first});
  }
  auto format = std::make_unique<StridedFormat>(layout.format, std::vector{layout.field});
  return open_records(std::move(files), std::move(format), nullptr, std::move(tables), layout.stride_bytes);
}

}  // namespace rota::internal
