#include "formats/strided.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "formats/merged_reads.hpp"
#include "formats/open_files.hpp"
#include "formats/records.hpp"

namespace rota::internal {
namespace {

class StridedSource final : public Source {
 public:
  StridedSource(FileList files, std::shared_ptr<SharedFiles> shared, StridedLayout layout)
      : files_(std::move(files), std::move(shared)), layout_(std::move(layout)), fields_{layout_.field} {
    for (const StridedFile& file : layout_.files) samples_.add(file.samples);
    require_expected(samples_, files_.list());
    fingerprint_ = digest();
  }

  [[nodiscard]] std::int64_t size() const override { return samples_.total(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }
  [[nodiscard]] std::vector<std::int64_t> part_sizes() const override { return samples_.counts(); }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    const std::size_t row_bytes = fields_[0].row_bytes();
    if (row_bytes == 0) return;
    std::vector<ReadRun> runs;
    FileSamples::SamplePlace place;
    for (std::size_t i = 0; i < ids.size();) {
      place = samples_.find(ids[i].value, place.file);
      const std::size_t count = count_neighbours(ids.subspan(i), place);
      runs.push_back({place.file, {.offset = offset(place), .to = out.part(i, count).all(0)}});
      i += count;
    }
    read_runs(runs);
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const FileSamples::SamplePlace place = samples_.find(id.value);
    return fmt::format("{}, sample {} at byte {}", files_.list().path(place.file), place.sample,
                       offset(place));
  }

  [[nodiscard]] std::vector<std::int64_t> shard_lengths(std::int64_t shards) const override {
    return files_.is_shared() ? samples_.shard_lengths(shards) : std::vector<std::int64_t>();
  }
  [[nodiscard]] const NodeFiles* node_files() const override { return files_.is_shared() ? &pins_ : nullptr; }

 private:
  [[nodiscard]] std::uint64_t offset(const FileSamples::SamplePlace& place) const noexcept {
    return layout_.files[place.file].first + static_cast<std::uint64_t>(place.sample) * layout_.stride_bytes;
  }

  /// Samples side by side in a file, and where they belong.
  struct ReadRun {
    std::size_t file;
    WantedBytes bytes;
    friend bool operator<(const ReadRun& a, const ReadRun& b) noexcept {
      return a.file != b.file ? a.file < b.file : a.bytes.offset < b.bytes.offset;
    }
  };

  // In the order in which they lie on disk.
  void read_runs(std::vector<ReadRun>& runs) const {
    std::sort(runs.begin(), runs.end());
    std::vector<WantedBytes> wanted;
    for (auto first = runs.begin(); first != runs.end();) {
      const std::size_t index = first->file;
      wanted.clear();
      for (; first != runs.end() && first->file == index; ++first) wanted.push_back(first->bytes);
      const OpenFiles::Handle opened = files_.open(index);
      read_merged({.files = files_.list(), .index = index, .fd = opened.get(), .memory = opened.memory()},
                  wanted);
    }
  }

  // How many of `ids`, of which `first` is the place of the first, follow one another in the file without
  // gaps.
  [[nodiscard]] std::size_t count_neighbours(std::span<const SampleId> ids,
                                             const FileSamples::SamplePlace& first) const noexcept {
    if (layout_.stride_bytes != fields_[0].row_bytes()) return 1;
    const std::int64_t most = samples_.count(first.file) - first.sample;
    std::size_t count = 1;
    while (count < ids.size() && static_cast<std::int64_t>(count) < most &&
           ids[count].value == ids[0].value + static_cast<std::int64_t>(count)) {
      ++count;
    }
    return count;
  }

  [[nodiscard]] Fingerprint digest() const {
    FingerprintBuilder builder;
    builder.add(layout_.format).add(to_string(files_.list().fingerprint()));
    builder.add(to_string(fields_[0].dtype)).add(fields_[0].shape);
    builder.add(static_cast<std::int64_t>(layout_.stride_bytes));
    for (const StridedFile& file : layout_.files) builder.add(file.samples);
    return builder.finish();
  }

  OpenFiles files_;
  StridedLayout layout_;
  std::vector<Field> fields_;
  FileSamples samples_;
  OpenFilePins pins_{files_, samples_};
  Fingerprint fingerprint_;
};

}  // namespace

std::shared_ptr<const Source> make_strided_source(FileList files, StridedLayout layout) {
  auto shared = SharedFiles::make(files, as_they_are(files));
  const auto context = files.shared_context();
  return made_together(*context, "open files", [&] {
    return std::make_unique<StridedSource>(std::move(files), std::move(shared), std::move(layout));
  });
}

}  // namespace rota::internal
