#include "catalog/listing.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rota {
namespace {

constexpr std::size_t kMostUnused = 16;

}  // namespace

class TableListing::PooledReader final : public Listing::Reader {
 public:
  explicit PooledReader(const TableListing& listing) : listing_(listing), reader_(listing.take_reader()) {}
  ~PooledReader() override { listing_.give_back(std::move(reader_)); }
  PooledReader(const PooledReader&) = delete;
  PooledReader& operator=(const PooledReader&) = delete;

  const std::string& operator[](std::size_t i) override { return (*reader_)[i]; }

 private:
  const TableListing& listing_;
  std::unique_ptr<NameReader> reader_;
};

TableListing::TableListing(NameTable names, mpi::SharedBytes stats)
    : names_(std::move(names)), stats_(std::move(stats)) {
  unused_.reserve(kMostUnused);
}

std::unique_ptr<NameReader> TableListing::take_reader() const {
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

void TableListing::give_back(std::unique_ptr<NameReader> reader) const noexcept {
  const std::scoped_lock lock(mutex_);
  if (unused_.size() < kMostUnused) unused_.push_back(std::move(reader));
}

std::unique_ptr<Listing::Reader> TableListing::read_names() const {
  return std::make_unique<PooledReader>(*this);
}

FileStat TableListing::stat(std::size_t i) const {
  FileStat stat;
  std::memcpy(&stat, stats_.bytes.data() + i * sizeof(stat), sizeof(stat));
  return stat;
}

bool operator==(const TableListing& a, const TableListing& b) noexcept {
  return std::ranges::equal(a.names_.bytes(), b.names_.bytes()) && std::ranges::equal(a.stats(), b.stats());
}

}  // namespace rota
