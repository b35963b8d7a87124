#include "formats/hdf5/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <functional>
#include <numeric>
#include <utility>

#include "core/bytes.hpp"
#include "formats/hdf5/reader.hpp"
#include "formats/open_files.hpp"
#include "source/stored_type.hpp"

namespace rota::internal {
namespace {

double bytes_to_decode(const Hdf5Dataset& dataset) noexcept {
  return dataset.is_decoded() ? static_cast<double>(dataset.rows()) * static_cast<double>(dataset.row_bytes())
                              : 0;
}

class Hdf5Source final : public FileSource {
 public:
  Hdf5Source(FileList files, std::shared_ptr<SharedFiles> shared, std::optional<FileList> targets,
             std::vector<Hdf5File> contents)
      : FileSource(
            std::move(files), std::move(shared), fields_of(contents[0]),
            [&](std::size_t i) { return contents[i].samples; }, false),
        contents_(std::move(contents)),
        shared_(make_shared_reads()) {
    if (targets) targets_.emplace(std::move(*targets));
    for (const Hdf5File& file : contents_) {
      for (const Hdf5Field& field : file.fields) {
        for (const Hdf5Dataset& dataset : field.datasets()) {
          if (bytes_to_decode(dataset) == 0) continue;
          for (std::int64_t slab = 0; slab * dataset.chunk[0] < dataset.rows(); ++slab) {
            if (!dataset.is_decoded(slab)) continue;
            chunks_ += dataset.chunks_per_slab;
            const std::int64_t rows = std::min(dataset.chunk[0], dataset.rows() - slab * dataset.chunk[0]);
            decoded_bytes_ += static_cast<double>(ChunkMemory::kept_bytes(dataset.row_bytes(), rows));
          }
        }
      }
    }
  }

  ~Hdf5Source() override {
    if (!shared_.load()->memory.is_of_parent()) delete shared_.load();
  }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    assert(fields()[field].ragged && out.size() == ids.size());
    check_ids(*this, ids);
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      out[i] = rows_of(place, field, nullptr).count * rows_in_row(dataset_of(place, field), field);
    }
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    RowReader reading(shared());
    for (std::size_t field = 0; field < fields().size(); ++field)
      add(ids, field, reading, [&](std::size_t i) { return out.bytes(field, i).data(); });
    reading.read(reader());
  }

  // As decode_stored asks for them.
  void read_field(std::span<const SampleId> ids, std::size_t field, std::span<std::byte> to) const {
    check_ids(*this, ids);
    const std::size_t row_bytes = fields()[field].row_bytes();
    RowReader reading(shared());
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
    RowReader reading(shared());
    std::vector<FileRange> ranges;
    ranges.reserve(wanted.size());
    FileSamples::SamplePlace place;
    for (const SampleRows& part : wanted) {
      place = samples().find(part.id.value, place.file);
      const PlacedRows all = rows_of(place, field, part.to);
      const std::int64_t each = rows_in_row(dataset_of(place, field), field);
      check_rows(part, all.count * each);
      if (each > 1) {
        read_of_whole(part, field);
        continue;
      }
      append(ranges, {place.file, &dataset_of(place, field), {all.first + part.first, part.count, part.to}});
    }
    add(field, ranges, reading);
    reading.read(reader());
  }

  // The slabs of the field that has most to decode. A sample over an edge belongs to the slab before.
  [[nodiscard]] std::vector<std::int64_t> unit_sizes() const override {
    std::vector<std::int64_t> sizes;
    const std::size_t field = most_decoded();
    if (field == fields().size()) return sizes;
    for (const Hdf5File& file : contents_) {
      const Hdf5Field& stored = file.fields[field];
      std::int64_t rows = stored.values.chunk.empty() ? stored.values.rows() : stored.values.chunk[0];
      std::int64_t before = 0;
      for (std::int64_t end = rows; before < file.samples; end += rows) {
        std::int64_t samples = std::min(end, file.samples);
        if (fields()[field].ragged) {
          const auto at = std::ranges::lower_bound(stored.offsets, end);
          samples = std::min<std::int64_t>(at - stored.offsets.begin(), file.samples);
        }
        if (samples > before) sizes.push_back(samples - before);
        before = std::max(before, samples);
        if (end >= stored.values.rows()) break;
      }
      if (before < file.samples) sizes.push_back(file.samples - before);
    }
    return sizes;
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    if (decoded_bytes_ == 0) return FileSource::plan_reads(open);
    return std::make_unique<Plan>(*this, open);
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
        for (const Hdf5Dataset& dataset : field.datasets()) {
          builder.add(dataset.extent);
          for (const auto& [part, bytes] : dataset.parts) builder.add(bytes);
        }
        if (field.target) builder.add(field.target->link).add(field.target->bytes);
      }
    }
    return builder.finish();
  }

 private:
  class Plan final : public FileSource::Plan {
   public:
    Plan(const Hdf5Source& source, std::int64_t open, std::unique_ptr<ChunkMemory> own = nullptr)
        : FileSource::Plan(source), source_(source), open_(open), own_(std::move(own)) {}
    [[nodiscard]] std::int64_t samples_ahead() const override { return source_.samples_ahead(memory()); }
    void tell(std::span<const SampleId> ids) override {
      if (!plan_) plan_.emplace(memory(), open_ + samples_ahead());
      plan_->tell(source_.decoded_rows(ids), std::ssize(ids));
    }
    void stop() noexcept override { plan_.reset(); }
    [[nodiscard]] ReadCounts counts() const override {
      return memory().decoded() += FileSource::Plan::counts();
    }
    [[nodiscard]] std::unique_ptr<ReadPlan> without_bytes() const override {
      return std::make_unique<Plan>(source_, open_, std::make_unique<ChunkMemory>(memory().limit(), false));
    }
    void pass(std::span<const SampleId> ids) override { pass_rows(memory(), source_.decoded_rows(ids)); }

   private:
    [[nodiscard]] ChunkMemory& memory() const { return own_ ? *own_ : source_.shared().memory; }
    const Hdf5Source& source_;
    std::int64_t open_;
    std::unique_ptr<ChunkMemory> own_;       // without bytes
    std::optional<ChunkMemory::Plan> plan_;  // once something was told
  };

  // Of the first file; how many fields there are, where nothing is decoded.
  [[nodiscard]] std::size_t most_decoded() const noexcept {
    const std::vector<Hdf5Field>& stored = contents_[0].fields;
    const auto bytes = [](const Hdf5Field& f) { return f.samples.empty() ? bytes_to_decode(f.values) : 0; };
    const auto most = std::ranges::max_element(stored, {}, bytes);
    return bytes(*most) > 0 ? static_cast<std::size_t>(most - stored.begin()) : stored.size();
  }

  // Twice as many as fit, of which half are there at a time; none once all are. Notes of them take a part.
  [[nodiscard]] std::int64_t samples_ahead(const ChunkMemory& memory) const {
    const double note_bytes = 256 * static_cast<double>(fields().size());
    const double of_sample = decoded_bytes_ / static_cast<double>(size());
    const auto limit = static_cast<double>(memory.limit());
    if (decoded_bytes_ <= limit && memory.decoded().decodes >= chunks_) return 0;
    return static_cast<std::int64_t>(std::min(2 * limit / of_sample, limit / note_bytes));
  }

  [[nodiscard]] std::vector<ChunkMemory::Rows> decoded_rows(std::span<const SampleId> ids) const {
    std::vector<ChunkMemory::Rows> out;
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      for (std::size_t f = 0; f < fields().size(); ++f) {
        const Hdf5Dataset& values = dataset_of(place, f);
        if (!values.is_decoded()) continue;
        each_slab(values, rows_of(place, f, nullptr), [&](const RowPiece& piece) {
          if (values.is_decoded(piece.slab))
            out.push_back({&values, piece.slab, piece.row, piece.count, static_cast<std::int64_t>(i)});
        });
      }
    }
    return out;
  }

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
    if (field.target || !field.samples.empty() || begin >= end) return 0;
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

  [[nodiscard]] const Hdf5Dataset& dataset_of(const FileSamples::SamplePlace& place,
                                              std::size_t field) const noexcept {
    return contents_[place.file].fields[field].dataset(place.sample);
  }

  // How many rows of the field a row of the dataset has: of samples that differ by more than their first
  // extents.
  [[nodiscard]] std::int64_t rows_in_row(const Hdf5Dataset& values, std::size_t field) const noexcept {
    const auto end = values.extent.end() - std::ssize(fields()[field].shape);
    return std::accumulate(values.extent.begin() + 1, end, std::int64_t{1}, std::multiplies<>());
  }

  // Of a sample that is read as a whole.
  void read_of_whole(const SampleRows& part, std::size_t field) const {
    const std::size_t row_bytes = fields()[field].row_bytes();
    std::vector<std::byte> whole(dataset_of(samples().find(part.id.value), field).bytes());
    RowReader reading(shared());
    add({&part.id, 1}, field, reading, [&](std::size_t /*i*/) { return whole.data(); });
    reading.read(reader());
    const auto from = whole.begin() + part.first * static_cast<std::ptrdiff_t>(row_bytes);
    std::copy_n(from, static_cast<std::size_t>(part.count) * row_bytes, part.to);
  }

  // Those of a sample's field, which belong at `to`.
  [[nodiscard]] PlacedRows rows_of(const FileSamples::SamplePlace& place, std::size_t field,
                                   std::byte* to) const noexcept {
    const Hdf5Field& stored = contents_[place.file].fields[field];
    if (!stored.samples.empty()) return {0, dataset_of(place, field).rows(), to};
    if (!fields()[field].ragged) return {place.sample, 1, to};
    const std::int64_t* offsets = stored.offsets.data() + place.sample;
    return {offsets[0], offsets[1] - offsets[0], to};
  }

  // Of a dataset with external links: where they lead is where the rows are.
  [[nodiscard]] const OpenFiles& reader() const noexcept { return targets_ ? *targets_ : files(); }

  // The file that has a field of the samples of `file`.
  [[nodiscard]] OpenFiles::SharedFile open(std::size_t file, std::size_t field) const {
    const auto& target = contents_[file].fields[field].target;
    return target ? targets_->open(target->index) : files().open(file);
  }

  [[nodiscard]] SharedReads* make_shared_reads() const {
    auto made = std::make_unique<SharedReads>(
        static_cast<std::size_t>(files().list().context().options.decoded_bytes));
    // Files in shared memory are fetched when their turn comes.
    if (!files().is_shared()) made->open = [this](const Hdf5Dataset& dataset) { return open(dataset); };
    return made.release();
  }
  // A forked child makes its own.
  [[nodiscard]] SharedReads& shared() const {
    SharedReads* found = shared_;
    if (!found->memory.is_of_parent()) return *found;
    std::unique_ptr<SharedReads> made(make_shared_reads());
    return shared_.compare_exchange_strong(found, made.get()) ? *made.release() : *found;
  }

  [[nodiscard]] OpenFiles::SharedFile open(const Hdf5Dataset& dataset) const {
    for (std::size_t file = 0; file < contents_.size(); ++file) {
      for (std::size_t field = 0; field < fields().size(); ++field) {
        const auto all = contents_[file].fields[field].datasets();
        const auto is_before = std::less<>();
        if (!is_before(&dataset, all.data()) && is_before(&dataset, all.data() + all.size()))
          return open(file, field);
      }
    }
    return {};
  }

  template <typename MemoryOf>
  void add(std::span<const SampleId> ids, std::size_t field, RowReader& reading,
           const MemoryOf& memory_of) const {
    std::vector<FileRange> ranges;
    ranges.reserve(ids.size());
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      place = samples().find(ids[i].value, place.file);
      append(ranges, {place.file, &dataset_of(place, field), rows_of(place, field, memory_of(i))});
    }
    add(field, ranges, reading);
  }

  void add(std::size_t field, std::vector<FileRange>& ranges, RowReader& reading) const {
    if (fields()[field].row_bytes() == 0) return;
    const auto place_of = [](const FileRange& range) { return std::pair(range.file, range.dataset); };
    if (!std::ranges::is_sorted(ranges, {}, place_of)) std::ranges::stable_sort(ranges, {}, place_of);
    std::vector<PlacedRows> rows;
    for (std::size_t i = 0; i < ranges.size();) {
      const auto [file, dataset] = place_of(ranges[i]);
      rows.clear();
      for (; i < ranges.size() && ranges[i].dataset == dataset; ++i) rows.push_back(ranges[i].rows);
      if (reading.files() == files().most_together()) reading.read(reader());
      reading.add(open(file, field), *dataset, rows);
    }
  }

  std::optional<OpenFiles> targets_;  // of external links
  std::vector<Hdf5File> contents_;
  double decoded_bytes_ = 0;  // of all that is decoded
  std::int64_t chunks_ = 0;   // of these
  mutable std::atomic<SharedReads*> shared_;
};

}  // namespace

std::vector<Field> fields_of(const Hdf5File& file) {
  std::vector<Field> fields;
  for (const Hdf5Field& field : file.fields) fields.push_back(field.field);
  return fields;
}

std::shared_ptr<const Source> read_hdf5(FileList files, std::shared_ptr<SharedFiles> shared,
                                        std::optional<FileList> targets, std::vector<Hdf5File> contents) {
  std::vector<StoredType> types;
  for (const auto& [field, values, target, offsets, samples, scaling, meant, sign] : contents[0].fields) {
    types.push_back(values.type);
    if (values.type.is_short_text())
      types.back().bytes = types.back().parts[0].bytes = static_cast<std::size_t>(field.shape.back());
  }
  const auto stored = std::make_shared<const Hdf5Source>(std::move(files), std::move(shared),
                                                         std::move(targets), std::move(contents));
  return decode_stored(stored, types, "open HDF5 files",
                       {.field = std::bind_front(&Hdf5Source::read_field, stored),
                        .heap = std::bind_front(&Hdf5Source::read_heap, stored)});
}

}  // namespace rota::internal
