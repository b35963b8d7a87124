// How long does it take to know what is there? 200,000 files, flat and in 200 directories, listed by rota
// with changes detected by name and, in the same run, by the limit (a bare loop of getdents64), by the naive
// way (std::filesystem, and a sort) and by find. What names cost when they are many: bytes a name, and
// time. And how long a run waits to begin, for 10^5 to 5 x 10^7 names: those of a storage that answers at
// once, listed, or taken from a pattern of which the proof looks for a sample.

#include <benchmark/benchmark.h>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/files.hpp"
#include "catalog/name_table.hpp"
#include "rota/open.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kFiles = 200'000;

double seconds_of(const auto& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A directory that is gone when the program ends.
class Place {
 public:
  Place() {
    std::string pattern = (fs::temp_directory_path() / "rota-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("make " + pattern);
    path_ = pattern;
  }
  ~Place() { fs::remove_all(path_); }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Empty files with numbered names, shared out over some directories.
class Tree {
 public:
  explicit Tree(int directories) {
    for (int i = 0; i < kFiles; ++i) {
      const fs::path place = directories > 1 ? path() / fmt::format("{:03}", i % directories) : path();
      if (i < directories) fs::create_directories(place);
      const int fd = ::open((place / fmt::format("sample_{:08}.bin", i)).c_str(), O_CREAT | O_WRONLY, 0600);
      if (fd < 0) throw std::runtime_error("create a file in " + place.string());
      ::close(fd);
    }
  }
  [[nodiscard]] const fs::path& path() const { return place_.path(); }

 private:
  Place place_;
};

const Tree& tree(int directories) {
  static std::map<int, Tree> trees;
  return trees.try_emplace(directories, directories).first->second;
}

/// All entries, looked at and forgotten.
std::int64_t count_entries(int at, const char* name, std::vector<char>& buffer) {
  const int fd = ::openat(at, name, O_RDONLY | O_DIRECTORY);
  if (fd < 0) throw std::runtime_error(std::string("open ") + name);
  std::int64_t files = 0;
  std::vector<std::string> directories;
  for (ssize_t bytes = 0; (bytes = ::getdents64(fd, buffer.data(), buffer.size())) > 0;) {
    for (ssize_t i = 0; i < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer.data() + i);
      i += entry->d_reclen;
      if (entry->d_type == DT_REG) ++files;
      if (entry->d_type == DT_DIR && entry->d_name[0] != '.') directories.emplace_back(&entry->d_name[0]);
    }
  }
  for (const std::string& below : directories) files += count_entries(fd, below.c_str(), buffer);
  ::close(fd);
  return files;
}

std::vector<std::string> naive_list(const fs::path& path) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_regular_file()) names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void list(benchmark::State& state) {
  const fs::path& path = tree(static_cast<int>(state.range(0))).path();
  std::vector<char> buffer(1 << 18);
  const std::string find = fmt::format("find {} -type f | wc -l > /dev/null", path.string());
  double rota = 0;
  double bare = 0;
  double naive = 0;
  double found = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    bare += seconds_of([&] {
      if (count_entries(AT_FDCWD, path.c_str(), buffer) != kFiles)
        throw std::runtime_error("files are missing");
    });
    const double one = seconds_of([&] {
      const auto files = rota::Catalog(path, {.change_detection = rota::ChangeDetection::by_name});
      if (files.size() != kFiles) throw std::runtime_error("files are missing");
      bytes = rota::internal::files_of(files).listing().names().bytes().size();
    });
    rota += one;
    naive += seconds_of([&] { benchmark::DoNotOptimize(naive_list(path)); });
    // NOLINTNEXTLINE(concurrency-mt-unsafe,cert-env33-c): find is what is measured, and there is one thread
    found += seconds_of([&] { benchmark::DoNotOptimize(std::system(find.c_str())); });
    state.SetIterationTime(one);
  }
  state.counters["files/s"] = static_cast<double>(state.iterations() * kFiles) / rota;
  state.counters["times_getdents"] = rota / bare;
  state.counters["naive_times_rota"] = naive / rota;
  state.counters["find_times_rota"] = found / rota;
  state.counters["bytes_a_name"] = static_cast<double>(bytes) / kFiles;
}
BENCHMARK(list)->ArgName("directories")->Arg(1)->Arg(200)->UseManualTime()->Unit(benchmark::kMillisecond);

rota::internal::NameTable numbered_names(std::int64_t count) {
  rota::internal::NameTableBuilder builder;
  for (std::int64_t i = 0; i < count; ++i) {
    builder.add(fmt::format("train/{:04}/", i / 10'000), fmt::format("img_{:08}_of_{:08}.npz", i, count));
  }
  return builder.finish();
}

void names(benchmark::State& state) {
  const std::int64_t count = state.range(0);
  const rota::internal::NameTable table = numbered_names(count);
  const auto asked = std::min<std::int64_t>(count, 1'000'000);
  rota::internal::NameReader reader(table);
  std::mt19937_64 random(1);
  double in_order = 0;
  double at_random = 0;
  for (auto _ : state) {
    in_order += seconds_of([&] {
      for (std::int64_t i = 0; i < asked; ++i) benchmark::DoNotOptimize(reader[static_cast<std::size_t>(i)]);
    });
    at_random += seconds_of([&] {
      for (int i = 0; i < 10'000; ++i) {
        benchmark::DoNotOptimize(reader[random() % static_cast<std::size_t>(count)]);
      }
    });
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["ns_in_order"] = in_order * 1e9 / (static_cast<double>(asked) * runs);
  state.counters["ns_at_random"] = at_random * 1e9 / (1e4 * runs);
  state.counters["bytes_a_name"] = static_cast<double>(table.bytes().size()) / static_cast<double>(count);
  state.counters["MB"] = static_cast<double>(table.bytes().size()) * 1e-6;
}
BENCHMARK(names)->ArgName("names")->Arg(1'000'000)->Arg(50'000'000)->Unit(benchmark::kMillisecond);

std::string name_of(std::int64_t i) { return fmt::format("train/{:05}/img_{:08}.npz", i / 10'000, i); }

/// So many files that lie nowhere.
class Numbered final : public rota::Storage {
 public:
  explicit Numbered(std::int64_t count) : count_(count) {}
  void list(std::string_view prefix,
            const std::function<void(const rota::StoredFile&)>& visit) const override {
    std::int64_t folder = -1;  // "train/00012/"
    if (prefix.size() > 6) std::from_chars(prefix.data() + 6, prefix.data() + prefix.size(), folder);
    if (folder > count_) return;
    const std::int64_t begin = folder < 0 ? 0 : folder * 10'000;
    const std::int64_t end = folder < 0 ? count_ : std::min(count_, begin + 10'000);
    for (std::int64_t i = begin; i < end; ++i) {
      rota::StoredFile file{.name = name_of(i), .bytes = 1, .version = 1};
      if (file.name.starts_with(prefix)) visit(file);
    }
  }
  [[nodiscard]] std::optional<rota::StoredFile> find(std::string_view name) const override {
    std::int64_t i = -1;
    const std::size_t at = name.rfind('_') + 1;
    std::from_chars(name.data() + at, name.data() + name.size(), i);
    if (i < 0 || i >= count_ || name != name_of(i)) return std::nullopt;
    return rota::StoredFile{.name = std::string(name), .bytes = 1, .version = 1};
  }
  void read(std::span<rota::StoredBytes> /*wanted*/) const override { throw std::runtime_error("read"); }

 private:
  std::int64_t count_;
};

void start(benchmark::State& state) {
  const std::int64_t count = state.range(0);
  const rota::CatalogOptions options{.change_detection = rota::ChangeDetection::by_name,
                                     .storages = {{"numbered", std::make_shared<Numbered>(count)}}};
  double bare = 0;
  double listed = 0;
  double computed = 0;
  std::size_t bytes = 0;
  for (auto _ : state) {
    bare += seconds_of([&] {
      for (std::int64_t i = 0; i < count; ++i) benchmark::DoNotOptimize(name_of(i));
    });
    listed += seconds_of([&] {
      const rota::Catalog catalog("numbered://train", options);
      if (catalog.size() != count) throw std::runtime_error("files are missing");
      bytes = rota::internal::files_of(catalog).listing().names().bytes().size();
    });
    computed += seconds_of([&] {
      const auto catalog = rota::Catalog::from_pattern(
          "numbered://train/{folder:05}/img_{index:08}.npz",
          {.files = count, .folders = count / 10'000, .layout = rota::FolderLayout::blocks}, options);
      if (catalog.size() != count) throw std::runtime_error("files are missing");
    });
  }
  const auto runs = static_cast<double>(state.iterations());
  state.counters["list_seconds"] = listed / runs;
  state.counters["list_times_making_names"] = listed / bare;
  state.counters["pattern_seconds"] = computed / runs;
  state.counters["MB_listed"] = static_cast<double>(bytes) * 1e-6;  // of a node; a pattern's names take none
}
BENCHMARK(start)
    ->ArgName("names")
    ->Arg(100'000)
    ->Arg(1'000'000)
    ->Arg(10'000'000)
    ->Arg(50'000'000)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

/// Files of text, of some hundred lines each, and their catalog in a file beside.
class Texts {
 public:
  explicit Texts(int files) {
    fs::create_directory(data());
    std::string text;
    while (text.size() < 64'000) text += std::string(127, 'x') + '\n';
    for (int i = 0; i < files; ++i) std::ofstream(data() / fmt::format("{:06}.jsonl", i)) << text;
    const rota::Catalog catalog(data());
    (void)rota::open(catalog);
    catalog.save(saved());
  }
  [[nodiscard]] fs::path data() const { return place_.path() / "data"; }
  [[nodiscard]] fs::path saved() const { return place_.path() / "saved"; }

 private:
  Place place_;
};

// To open what was indexed before, checked against what is there now, beside indexing it anew.
void saved(benchmark::State& state) {
  const Texts texts(static_cast<int>(state.range(0)));
  double anew = 0;
  double loaded = 0;
  for (auto _ : state) {
    anew += seconds_of([&] { benchmark::DoNotOptimize(rota::open(texts.data())); });
    const double one = seconds_of([&] { benchmark::DoNotOptimize(rota::open(texts.saved())); });
    loaded += one;
    state.SetIterationTime(one);
  }
  state.counters["anew_times_saved"] = anew / loaded;
  state.counters["bytes_a_sample"] = static_cast<double>(fs::file_size(texts.saved())) /
                                     static_cast<double>(rota::open(texts.saved())->size());
}
BENCHMARK(saved)->ArgName("files")->Arg(1'000)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
