#include "catalog/listing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/bytes.hpp"
#include "core/mutex.hpp"

namespace rota::internal {
namespace {

constexpr std::size_t kMostUnused = 16;

}  // namespace

/// Readers that are not in use, each with the block that it unpacked last.
class Listing::Readers : public std::enable_shared_from_this<Readers> {
 public:
  explicit Readers(NameTable names) : names_(std::move(names)) { unused_.reserve(kMostUnused); }

  /// One that comes back when it is no longer used, and may outlive the listing.
  std::shared_ptr<NameReader> take() {
    return {find().release(), [home = shared_from_this()](NameReader* reader) {
              home->give_back(std::unique_ptr<NameReader>(reader));
            }};
  }

 private:
  std::unique_ptr<NameReader> find() {
    {
      const MutexLock lock(mutex_);
      if (!unused_.empty()) {
        auto reader = std::move(unused_.back());
        unused_.pop_back();
        return reader;
      }
    }
    return std::make_unique<NameReader>(names_);
  }
  void give_back(std::unique_ptr<NameReader> reader) noexcept {
    const MutexLock lock(mutex_);
    if (unused_.size() < kMostUnused) unused_.push_back(std::move(reader));
  }

  NameTable names_;
  Mutex mutex_;
  std::vector<std::unique_ptr<NameReader>> unused_ ROTA_GUARDED_BY(mutex_);
};

Listing::Listing(NameTable names, NodeBuffer stats)
    : names_(std::move(names)), stats_(std::move(stats)), readers_(std::make_shared<Readers>(names_)) {}

const std::string& Listing::Reader::operator[](std::size_t i) {
  if (table_ != nullptr) return (*table_)[i];
  name_ = series_->name(static_cast<std::int64_t>(i));
  return name_;
}

std::unique_ptr<Listing::Reader> Listing::read_names() const {
  return std::make_unique<Reader>(is_computed() ? nullptr : readers_->take(), &series_);
}

std::unordered_map<std::string, std::size_t> Listing::numbers() const {
  std::unordered_map<std::string, std::size_t> numbers;
  NameReader names(names_);
  for (std::size_t i = 0; i < size(); ++i) numbers.emplace(names[i], i);
  return numbers;
}

FileStat Listing::stat(std::size_t i) const { return load<FileStat>(stats_.bytes, i * sizeof(FileStat)); }

bool operator==(const Listing& a, const Listing& b) noexcept {
  return std::ranges::equal(a.names_.bytes(), b.names_.bytes()) && std::ranges::equal(a.stats(), b.stats());
}

}  // namespace rota::internal
