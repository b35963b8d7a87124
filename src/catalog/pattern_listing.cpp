#include "catalog/pattern_listing.hpp"

namespace rota::internal {
namespace {

class PatternReader final : public Listing::Reader {
 public:
  explicit PatternReader(const NameSeries& series) : series_(series) {}
  const std::string& operator[](std::size_t i) override {
    name_ = series_.name(static_cast<std::int64_t>(i));
    return name_;
  }

 private:
  const NameSeries& series_;
  std::string name_;
};

}  // namespace

std::int64_t scaled(std::int64_t a, std::int64_t b, std::int64_t c) noexcept {
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(static_cast<Wide>(a) * b / c);
}

NameNumbers NameSeries::numbers(std::int64_t i) const noexcept {
  NameNumbers numbers{.index = first_index + i, .folder = first_folder, .total = files};
  switch (layout) {
    case FolderLayout::round_robin:
      numbers.folder += i % folders;
      break;
    case FolderLayout::blocks:
      numbers.folder += scaled(i, folders, files);
      break;
    case FolderLayout::restart:
      numbers.folder += i / (files / folders);
      numbers.index = first_index + i % (files / folders);
      break;
  }
  return numbers;
}

Fingerprint NameSeries::fingerprint() const {
  return FingerprintBuilder()
      .add("names of a pattern")
      .add(pattern.text())
      .add(files)
      .add(first_index)
      .add(folders)
      .add(first_folder)
      .add(static_cast<std::int64_t>(layout))
      .finish();
}

std::unique_ptr<Listing::Reader> PatternListing::read_names() const {
  return std::make_unique<PatternReader>(series_);
}

}  // namespace rota::internal
