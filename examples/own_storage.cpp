// Files in a place of one's own, in 30 lines: here a table in memory, as it might be an object store or an
// archive. Every format reads from it, and resume is as ever.

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "rota/rota.hpp"

namespace {

/// Files by name, which nobody changes.
class Table : public rota::Storage {
 public:
  explicit Table(std::map<std::string, std::string> files) : files_(std::move(files)) {}

  void list(std::string_view prefix,
            const std::function<void(const rota::StoredFile&)>& visit) const override {
    for (auto file = files_.lower_bound(std::string(prefix)); file != files_.end(); ++file) {
      if (!file->first.starts_with(prefix)) break;
      visit({.name = file->first, .bytes = file->second.size()});
    }
  }

  [[nodiscard]] std::optional<rota::StoredFile> find(std::string_view name) const override {
    const auto file = files_.find(std::string(name));
    if (file == files_.end()) return std::nullopt;
    return rota::StoredFile{.name = file->first, .bytes = file->second.size()};
  }

  // All that a worker needs for its part of a batch. A place far away would begin with all of it at once.
  void read(std::span<rota::StoredBytes> wanted) const override {
    for (const rota::StoredBytes& one : wanted) {
      std::memcpy(one.to.data(), files_.at(one.file->name).data() + one.offset, one.to.size());
    }
  }

 private:
  std::map<std::string, std::string> files_;
};

}  // namespace

int main() {
  std::map<std::string, std::string> files;
  for (int i = 0; i < 100; ++i) {
    for (int line = 0; line < 10; ++line) files[fmt::format("corpus/{:03}.txt", i)] += fmt::format("{}\n", i);
  }
  rota::CatalogOptions options;
  options.storages["table"] = std::make_shared<Table>(std::move(files));
  const rota::Catalog catalog("table://corpus/*.txt", options);

  rota::Loader loader(rota::open(catalog, "lines"), {.global_batch_size = 64, .workers = 2});
  std::int64_t sum = 0;
  for (const rota::Batch& batch : loader) {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto text = batch.bytes(0, i);
      sum += std::stoi(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
    }
  }
  fmt::print("the lines of {} files, {} and so on, add up to {}\n", catalog.size(), catalog.path(0), sum);
  return sum == 49500 ? 0 : 1;
}
