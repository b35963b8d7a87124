#include "catalog/listing.hpp"

#include <algorithm>
#include <cstring>

namespace rota {
namespace {

class TableReader final : public Listing::Reader {
 public:
  explicit TableReader(const NameTable& table) : reader_(table) {}
  const std::string& operator[](std::size_t i) override { return reader_[i]; }

 private:
  NameReader reader_;
};

}  // namespace

std::unique_ptr<Listing::Reader> TableListing::read_names() const {
  return std::make_unique<TableReader>(names_);
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
