#include "catalog/listing.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace rota::internal {
namespace {

constexpr std::size_t kMostUnused = 16;

}  // namespace

/// Readers that are not in use, each with the block that it unpacked last.
class TableListing::Readers : public std::enable_shared_from_this<Readers> {
 public:
  explicit Readers(NameTable names) : names_(std::move(names)) { unused_.reserve(kMostUnused); }

  std::unique_ptr<Listing::Reader> take() { return std::make_unique<Taken>(shared_from_this(), find()); }

 private:
  /// Comes back when it dies, and may outlive the listing.
  class Taken final : public Listing::Reader {
   public:
    Taken(std::shared_ptr<Readers> home, std::unique_ptr<NameReader> reader)
        : home_(std::move(home)), reader_(std::move(reader)) {}
    ~Taken() override { home_->give_back(std::move(reader_)); }
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    const std::string& operator[](std::size_t i) override { return (*reader_)[i]; }

   private:
    std::shared_ptr<Readers> home_;
    std::unique_ptr<NameReader> reader_;
  };

  std::unique_ptr<NameReader> find() {
    {
      const std::scoped_lock lock(mutex_);
      if (!unused_.empty()) {
        auto reader = std::move(unused_.back());
        unused_.pop_back();
        return reader;
      }
    }
    return std::make_unique<NameReader>(names_);
  }
  void give_back(std::unique_ptr<NameReader> reader) noexcept {
    const std::scoped_lock lock(mutex_);
    if (unused_.size() < kMostUnused) unused_.push_back(std::move(reader));
  }

  NameTable names_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<NameReader>> unused_;
};

TableListing::TableListing(NameTable names, NodeBuffer stats)
    : names_(std::move(names)), stats_(std::move(stats)), readers_(std::make_shared<Readers>(names_)) {}

std::unique_ptr<Listing::Reader> TableListing::read_names() const { return readers_->take(); }

FileStat TableListing::stat(std::size_t i) const {
  FileStat stat;
  std::memcpy(&stat, stats_.bytes.data() + i * sizeof(stat), sizeof(stat));
  return stat;
}

bool operator==(const TableListing& a, const TableListing& b) noexcept {
  return std::ranges::equal(a.names_.bytes(), b.names_.bytes()) && std::ranges::equal(a.stats(), b.stats());
}

}  // namespace rota::internal
