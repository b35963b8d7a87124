#include "source/strided.hpp"

#include <fmt/format.h>

#include <utility>

#include "source/open_files.hpp"
#include "source/records.hpp"

namespace rota {
namespace {

class StridedSource final : public Source {
 public:
  StridedSource(FileList files, StridedLayout layout)
      : files_(std::move(files)), layout_(std::move(layout)), fields_{layout_.field} {
    for (const StridedFile& file : layout_.files) samples_.add(file.samples);
    samples_.require_expected(files_.list());
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
    FileSamples::Place place;
    for (std::size_t i = 0; i < ids.size();) {
      place = samples_.find(ids[i].value, place.file);
      const OpenFiles::Handle opened = files_.open(place.file);
      const RecordFile file{.files = files_.list(), .index = place.file, .fd = opened.get()};
      while (i < ids.size()) {
        const auto next = samples_.find(ids[i].value, place.file);
        if (next.file != place.file) break;
        const std::size_t count = count_neighbours(ids.subspan(i), next);
        const std::span<std::byte> to = out.part(i, count).all(0);
        file.read(offset(next), to);
        i += count;
      }
    }
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const FileSamples::Place place = samples_.find(id.value);
    return fmt::format("{}, sample {} at byte {}", files_.list().path(place.file), place.sample,
                       offset(place));
  }

 private:
  [[nodiscard]] std::uint64_t offset(const FileSamples::Place& place) const noexcept {
    return layout_.files[place.file].first + static_cast<std::uint64_t>(place.sample) * layout_.stride_bytes;
  }

  // How many of `ids`, of which `first` is the place of the first, follow one another in the file without
  // gaps.
  [[nodiscard]] std::size_t count_neighbours(std::span<const SampleId> ids,
                                             const FileSamples::Place& first) const noexcept {
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
  Fingerprint fingerprint_;
};

}  // namespace

std::unique_ptr<const Source> make_strided_source(FileList files, StridedLayout layout) {
  const auto crew = files.shared_crew();
  return made_together(*crew, "open files",
                       [&] { return std::make_unique<StridedSource>(std::move(files), std::move(layout)); });
}

}  // namespace rota
