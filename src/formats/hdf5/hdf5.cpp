#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "catalog/open_context.hpp"
#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "formats/formats.hpp"
#include "formats/hdf5/file.hpp"
#include "formats/hdf5/reader.hpp"
#include "formats/open_files.hpp"
#include "source/content.hpp"
#include "source/field_check.hpp"
#include "source/stored_type.hpp"

namespace rota::internal {
namespace {

// Rows that one file holds.
struct FileRange {
  std::size_t file;
  PlacedRows rows;
};

std::vector<Field> fields_of(const Hdf5File& file) {
  std::vector<Field> fields;
  for (const Hdf5Field& field : file.fields) fields.push_back(field.field);
  return fields;
}

class Hdf5Source final : public FileSource {
 public:
  Hdf5Source(FileList files, std::shared_ptr<SharedFiles> shared, std::optional<FileList> targets,
             std::vector<Hdf5File> contents)
      : FileSource(std::move(files), std::move(shared), fields_of(contents[0]),
                   [&](std::size_t i) { return contents[i].samples; }),
        contents_(std::move(contents)) {
    if (targets) targets_.emplace(std::move(*targets));
  }

  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    return files().is_shared() ? std::vector<SampleContent>() : read_content(*this, most, false);
  }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    assert(fields()[field].ragged && out.size() == ids.size());
    check_ids(*this, ids);
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      out[i] = rows_of(place, field, nullptr).count;
    }
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    RowReader reading;
    for (std::size_t field = 0; field < fields().size(); ++field)
      add(ids, field, reading, [&](std::size_t i) { return out.bytes(field, i).data(); });
    reading.read(reader());
  }

  // As decode_stored asks for them.
  void read_field(std::span<const SampleId> ids, std::size_t field, std::span<std::byte> to) const {
    check_ids(*this, ids);
    const std::size_t row_bytes = fields()[field].row_bytes();
    RowReader reading;
    add(ids, field, reading, [&](std::size_t i) { return &to[i * row_bytes]; });
    reading.read(reader());
    for (const StoredPart& part : contents_[0].fields[field].values.type.parts) {
      for (std::size_t i = 0; part.is_elsewhere() && i < ids.size(); ++i) {
        const std::uint64_t count = load<std::uint32_t>(to, i * row_bytes + part.offset);
        const OpenFiles::SharedFile file = open(samples().find(ids[i].value).file, field);
        if (count * size_of(part.dtype) > file->bytes())
          throw file->damage(
              0, "\"{}\" has {} elements in a row, more than it can hold; fetch or write it again",
              fields()[field].name, count);
      }
    }
  }
  void read_heap(std::span<const SampleId> ids, std::size_t field, std::span<const std::byte> references,
                 std::span<const std::span<std::byte>> to) const {
    std::vector<HeapRead> reads;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const std::size_t at = i * kReferenceBytes + sizeof(std::uint32_t);  // behind how many there are
      const std::size_t file = samples().find(ids[i].value).file;
      const std::uint64_t base = contents_[file].fields[field].values.heap_base;
      reads.push_back({.file = open(file, field),
                       .address = base + load<std::uint64_t>(references, at),
                       .index = load<std::uint32_t>(references, at + sizeof(std::uint64_t)),
                       .to = to[i]});
      if (reads.size() < files().most_together() && i + 1 < ids.size()) continue;
      read_from_heap(reader(), std::move(reads));
      reads.clear();
    }
  }

  void read_rows(std::span<const SampleRows> wanted, std::size_t field) const override {
    assert(fields()[field].ragged);
    check_ids(*this, wanted);
    RowReader reading;
    std::vector<FileRange> ranges;
    ranges.reserve(wanted.size());
    FileSamples::SamplePlace place;
    for (const SampleRows& part : wanted) {
      place = samples().find(part.id.value, place.file);
      const PlacedRows all = rows_of(place, field, part.to);
      check_rows(part, all.count);
      append(ranges, {place.file, {all.first + part.first, part.count, part.to}},
             fields()[field].row_bytes());
    }
    add(field, ranges, reading);
    reading.read(reader());
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const auto [file, row] = samples().find(id.value);
    return fmt::format("{}, row {}", files().list().path(file), row);
  }

  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return files().is_shared() ? samples().shard_lengths(shards) : std::vector<std::int64_t>();
  }
  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder builder;
    builder.add("hdf5").add(to_string(files().list().fingerprint()));
    for (const Field& field : fields())
      builder.add(field.name).add(to_string(field.dtype)).add(field.ragged ? 1 : 0);
    for (const Hdf5File& file : contents_) {
      builder.add(file.samples);
      for (const Hdf5Field& field : file.fields) {
        builder.add(field.values.extent);
        if (field.target) builder.add(field.target->link).add(field.target->bytes);
      }
    }
    return builder.finish();
  }

 private:
  [[nodiscard]] std::int64_t will_read_in(std::size_t file, std::int64_t first,
                                          std::int64_t count) const override {
    std::int64_t bytes = 0;
    for (std::size_t field = 0; field < fields().size(); ++field) {
      const PlacedRows last = rows_of({file, first + count - 1}, field, nullptr);
      bytes += will_read_rows(file, contents_[file].fields[field],
                              rows_of({file, first}, field, nullptr).first, last.first + last.count);
    }
    return bytes;
  }

  // Of rows [begin, end), as they lie in the file or in its chunks; other files, which links lead to, are not
  // looked into.
  [[nodiscard]] std::int64_t will_read_rows(std::size_t file, const Hdf5Field& field, std::int64_t begin,
                                            std::int64_t end) const {
    const Hdf5Dataset& values = field.values;
    if (field.target || begin >= end) return 0;
    if (values.storage == Hdf5Storage::contiguous) {
      const std::size_t row_bytes = values.row_bytes();
      return files().will_read(file, values.address + static_cast<std::uint64_t>(begin) * row_bytes,
                               values.address + static_cast<std::uint64_t>(end) * row_bytes);
    }
    if (values.storage != Hdf5Storage::chunked) return 0;
    std::int64_t bytes = 0;
    const std::int64_t first_chunk = begin / values.chunk[0] * values.chunks_per_slab;
    const std::int64_t end_chunk = ((end - 1) / values.chunk[0] + 1) * values.chunks_per_slab;
    for (std::int64_t number = first_chunk; number < end_chunk; ++number) {
      const StoredChunk* const chunk = values.find(number);
      if (chunk != nullptr) bytes += files().will_read(file, chunk->address, chunk->address + chunk->bytes);
    }
    return bytes;
  }

  // Those of a sample's field, which belong at `to`.
  [[nodiscard]] PlacedRows rows_of(const FileSamples::SamplePlace& place, std::size_t field,
                                   std::byte* to) const noexcept {
    if (!fields()[field].ragged) return {place.sample, 1, to};
    const std::int64_t* offsets = contents_[place.file].fields[field].offsets.data() + place.sample;
    return {offsets[0], offsets[1] - offsets[0], to};
  }

  // Rows that follow one another in a file and in memory make one range.
  static void append(std::vector<FileRange>& ranges, const FileRange& range, std::size_t row_bytes) {
    if (range.rows.count == 0) return;
    if (!ranges.empty() && ranges.back().file == range.file) {
      PlacedRows& last = ranges.back().rows;
      if (last.first + last.count == range.rows.first &&
          last.to + static_cast<std::size_t>(last.count) * row_bytes == range.rows.to) {
        last.count += range.rows.count;
        return;
      }
    }
    ranges.push_back(range);
  }

  // Of a dataset with external links: where they lead is where the rows are.
  [[nodiscard]] const OpenFiles& reader() const noexcept { return targets_ ? *targets_ : files(); }

  // The file that has a field of the samples of `file`.
  [[nodiscard]] OpenFiles::SharedFile open(std::size_t file, std::size_t field) const {
    const auto& target = contents_[file].fields[field].target;
    return target ? targets_->open(target->index) : files().open(file);
  }

  template <typename MemoryOf>
  void add(std::span<const SampleId> ids, std::size_t field, RowReader& reading,
           const MemoryOf& memory_of) const {
    std::vector<FileRange> ranges;
    ranges.reserve(ids.size());
    const std::size_t row_bytes = fields()[field].row_bytes();
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      append(ranges, {place.file, rows_of(place, field, memory_of(i))}, row_bytes);
    }
    add(field, ranges, reading);
  }

  void add(std::size_t field, std::vector<FileRange>& ranges, RowReader& reading) const {
    if (fields()[field].row_bytes() == 0) return;
    if (files().list().size() > 1) {
      std::stable_sort(ranges.begin(), ranges.end(),
                       [](const FileRange& a, const FileRange& b) { return a.file < b.file; });
    }
    std::vector<PlacedRows> rows;
    for (std::size_t i = 0; i < ranges.size();) {
      const std::size_t file = ranges[i].file;
      rows.clear();
      for (; i < ranges.size() && ranges[i].file == file; ++i) rows.push_back(ranges[i].rows);
      if (reading.files() == files().most_together()) reading.read(reader());
      reading.add(open(file, field), contents_[file].fields[field].values, rows);
    }
  }

  std::optional<OpenFiles> targets_;  // of external links
  std::vector<Hdf5File> contents_;
};

// "x" and "/x" are the same dataset.
std::vector<std::string> absolute_names(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (!name.starts_with('/')) name.insert(0, "/");
  }
  return names;
}

void check_alike(const FileList& files, const std::vector<Hdf5File>& contents, std::size_t i) {
  const std::vector<Field> expected = fields_of(contents[0]);
  const std::vector<Field> found = fields_of(contents[i]);
  const auto is_stored_alike = [](const Hdf5Field& a, const Hdf5Field& b) {
    return a.values.type == b.values.type;
  };
  const bool are_stored_alike = std::ranges::equal(contents[0].fields, contents[i].fields, is_stored_alike);
  if (found == expected && are_stored_alike) return;
  throw failure(ErrorCode::invalid_argument,
                "open {}: it has {}, and {} has {}{}; join files whose fields are the same", files.path(i),
                describe(found), files.path(0), describe(expected),
                found == expected ? ", stored otherwise" : "");
}

// From the directory that `files` are in, for FileList::beside.
std::string relative_name(const FileList& files, const std::string& path) {
  const std::string& directory = files.directory();
  if (path.starts_with(directory)) return path.substr(directory.size());
  // From where the directory really is: symbolic links may lead there.
  const std::filesystem::path target(path);
  std::error_code error;
  const auto from = std::filesystem::canonical(directory.empty() ? "." : directory, error);
  const auto to = error ? from : std::filesystem::canonical(target.parent_path(), error);
  if (error) throw system_error("open", path, error.value());
  return (to / target.filename()).lexically_relative(from).native();
}

// The files that external links lead into, and their numbers among them.
FileList list_targets(const FileList& files, std::vector<Hdf5File>& contents) {
  std::map<std::string, std::size_t> numbers;  // by path
  std::vector<std::string> paths;
  std::vector<std::int64_t> bytes;
  for (Hdf5File& file : contents) {
    for (Hdf5Field& field : file.fields) {
      if (!field.target) continue;
      const auto [number, is_new] = numbers.try_emplace(field.target->path, paths.size());
      field.target->index = number->second;
      if (!is_new) continue;
      paths.push_back(field.target->path);
      bytes.push_back(field.target->bytes);
    }
  }
  const auto names = made_on_first_rank(files.context(), "look for files that links lead to", [&] {
    std::vector<std::string> relative(paths.size());
    std::transform(paths.begin(), paths.end(), relative.begin(),
                   [&](const std::string& path) { return relative_name(files, path); });
    return relative;
  });
  FileList targets = files.beside(names);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets.bytes(i) == bytes[i]) continue;
    throw failure(ErrorCode::corrupt,
                  "open {}: it has {} bytes now and had {} before; open the dataset when nobody writes to it",
                  targets.path(i), targets.bytes(i), bytes[i]);
  }
  return targets;
}

// What is read as the fill value may be meant so, or its writer may have ended before.
void tell_unwritten(const FileList& files, const std::vector<Hdf5File>& contents) {
  std::int64_t missing = 0;
  std::int64_t all = 0;
  std::string first;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    for (const Hdf5Field& field : contents[i].fields) {
      const Hdf5Dataset& values = field.values;
      const std::int64_t absent = values.unwritten_chunks();
      all += absent + std::ssize(values.chunks);
      if (missing == 0 && absent > 0) first = fmt::format("\"{}\" in {}", values.name, files.path(i));
      missing += absent;
    }
  }
  if (missing == 0 || files.context().nodes.all().rank() != 0) return;
  tell(fmt::format("open {}: {} of {} chunks were never written, and hold the fill value: the first of {}",
                   files.directory(), missing, all, first));
}

bool is_hdf5_name(std::string_view name) { return name.ends_with(".h5") || name.ends_with(".hdf5"); }

}  // namespace

bool is_hdf5(const FileList& files, std::size_t i) {
  const DatasetFile file = files.open(i);
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to) {
    file.read(offset, to);
    return true;
  };
  return find_hdf5_signature({file.bytes(), read}).has_value();
}

std::shared_ptr<const Source> open_as(const Catalog& catalog, const Hdf5Options& options) {
  FileList files = files_of(catalog).only(is_hdf5_name);
  Hdf5Choice choice{.datasets = absolute_names(options.datasets)};
  if (choice.datasets.empty()) {
    choice = made_on_first_rank(files.context(), "look into the first file", [&] {
      (void)ask_file(files.open_unchanged(0), choice, options.allow_external_links);
      choice.tell_left_out(files.path(0));
      return choice;
    });
  }
  // What lies in other files may change without these.
  const std::string signature =
      options.allow_external_links ? "" : fmt::format("hdf5 datasets {}", choice.datasets);
  auto contents = look_into_files<Hdf5File>(files, signature, [&](const DatasetFile& file) {
    Hdf5Choice same = choice;
    return ask_file(file, same, options.allow_external_links);
  });
  for (std::size_t i = 1; i < contents.size(); ++i) check_alike(files, contents, i);
  tell_unwritten(files, contents);
  const bool has_targets = std::any_of(contents.begin(), contents.end(), [](const Hdf5File& file) {
    return std::any_of(file.fields.begin(), file.fields.end(),
                       [](const Hdf5Field& field) { return field.target.has_value(); });
  });
  std::optional<FileList> targets;
  if (has_targets) targets = list_targets(files, contents);
  auto shared = SharedFiles::make(files, as_they_are(files));
  const auto context = files.shared_context();
  std::vector<StoredType> types;
  for (const Hdf5Field& field : contents[0].fields) types.push_back(field.values.type);
  const std::shared_ptr<const Hdf5Source> stored = made_together(*context, "open files", [&] {
    return std::make_unique<Hdf5Source>(std::move(files), std::move(shared), std::move(targets),
                                        std::move(contents));
  });
  return decode_stored(stored, types, "open HDF5 files",
                       {.field = std::bind_front(&Hdf5Source::read_field, stored),
                        .heap = std::bind_front(&Hdf5Source::read_heap, stored)});
}

}  // namespace rota::internal

namespace rota {

void Hdf5Options::validate() const {
  std::vector<std::string> names = internal::absolute_names(datasets);
  for (std::string& name : names) name.erase(0, 1);
  internal::require_distinct("datasets", names);
}

}  // namespace rota
