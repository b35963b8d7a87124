// How much of a disk's speed does one worker reach where nothing is in the page cache, and how much of a
// mapping's where all is? Cold samples are at random from files that were evicted. Beside it, in the same
// run, the same bytes read by bare loops: pread, which waits for each, and io_uring with 64 reads under way,
// through the page cache and past it (O_DIRECT).

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "written_files.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 256;
constexpr unsigned kUnderWay = 64;
constexpr std::size_t kPage = 4096;  // what O_DIRECT reads whole ones of

// Writes <format>, and <format>.layout: the byte of the first sample, and the distance between two.
constexpr const char* kWriter = R"(
import io, os, sys, tarfile
import h5py
import numpy as np
os.chdir(sys.argv[1])
n, size = int(sys.argv[2]), int(sys.argv[3])
rows = np.random.default_rng(1).integers(0, 256, (n, size), 'u1')
def layout(name, first, stride):
    print(first, stride, file=open(name + '.layout', 'w'))
rows.tofile('tokens')
layout('tokens', 0, size)
np.save('npy.npy', rows)
layout('npy.npy', os.path.getsize('npy.npy') - n * size, size)
with h5py.File('hdf5.h5', 'w') as file:
    dataset = file.create_dataset('x', data=rows)
    file.flush()
    layout('hdf5.h5', dataset.id.get_offset(), size)
with tarfile.open('tar', 'w', format=tarfile.USTAR_FORMAT) as tar:
    for i in range(n):
        info = tarfile.TarInfo(f'{i:08}.bin')
        info.size = size
        tar.addfile(info, io.BytesIO(rows[i].tobytes()))
layout('tar', 512, 512 + (size + 511) // 512 * 512)
os.mkdir('files')
for i in range(min(n, 8192)):
    rows[i].tofile(f'files/{i:06}')
os.sync()
)";

struct Size {
  std::int64_t bytes;
  std::int64_t samples;
  std::int64_t batches;  // that are read at a time: few of all, so that none is met again
};
constexpr Size kSizes[] = {{1 << 10, 1 << 20, 64}, {16 << 10, 1 << 16, 32}, {128 << 10, 1 << 13, 8}};

using rota::bench::WrittenFiles;

// The files of samples of one size; those of the size before are gone.
const WrittenFiles& data(const Size& size) {
  static std::int64_t bytes = 0;
  static std::unique_ptr<const WrittenFiles> made;
  if (bytes != size.bytes) {
    made.reset();
    made = std::make_unique<const WrittenFiles>(kWriter, size.samples, size.bytes);
    bytes = size.bytes;
  }
  return *made;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A file, opened for bare reads.
class Bare {
 public:
  Bare(const fs::path& path, std::int64_t sample_bytes)
      : path_(path),
        fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
        direct_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT)),
        bytes_(static_cast<std::size_t>(sample_bytes)),
        memory_(static_cast<char*>(::operator new(kUnderWay* slot_bytes(), std::align_val_t(kPage)))) {
    std::ifstream layout(path.string() + ".layout");
    if (!(layout >> first_ >> stride_) || fd_ < 0) throw std::runtime_error("open " + path.string());
    if (::io_uring_queue_init(kUnderWay, &ring_, 0) != 0) throw std::runtime_error("set up io_uring");
  }
  ~Bare() {
    ::io_uring_queue_exit(&ring_);
    ::close(fd_);
    if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
    if (direct_ >= 0) ::close(direct_);
    ::operator delete(memory_, std::align_val_t(kPage));
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;

  [[nodiscard]] bool has_direct() const { return direct_ >= 0; }
  // Out of the page cache, but for what others have just written.
  void evict() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED); }

  void read_in_turn(const std::vector<std::int64_t>& ids) {
    for (const std::int64_t id : ids) require(::pread(fd_, memory_, bytes_, offset(id)));
  }

  // From a mapping into a batch.
  void copy(const std::vector<std::int64_t>& ids) {
    if (mapping_ == nullptr) {
      mapped_bytes_ = fs::file_size(path_);
      void* const mapped = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd_, 0);
      if (mapped == MAP_FAILED) throw std::runtime_error("map a file");
      mapping_ = static_cast<char*>(mapped);
      batch_.resize(static_cast<std::size_t>(kBatch) * bytes_);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::memcpy(batch_.data() + i % kBatch * bytes_, mapping_ + offset(ids[i]), bytes_);
    }
    benchmark::DoNotOptimize(batch_.data());
  }

  void read_in_sequence(std::int64_t samples) const {
    std::vector<char> block(1 << 20);
    std::int64_t left = samples * static_cast<std::int64_t>(bytes_);
    for (std::int64_t at = 0; left > 0;) {
      const auto got =
          ::pread(fd_, block.data(), std::min<std::size_t>(block.size(), static_cast<std::size_t>(left)), at);
      if (got <= 0) throw std::runtime_error("read a block");
      at += got;
      left -= got;
    }
  }

  void read_at_once(const std::vector<std::int64_t>& ids, bool is_direct) {
    std::size_t begun = 0;
    std::vector<unsigned> free;
    for (unsigned slot = 0; slot < kUnderWay; ++slot) free.push_back(slot);
    for (std::size_t done = 0; done < ids.size();) {
      for (; begun < ids.size() && !free.empty(); ++begun) {
        io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
        const std::int64_t at = offset(ids[begun]);
        const std::int64_t from = is_direct ? at - at % static_cast<std::int64_t>(kPage) : at;
        const std::size_t count =
            is_direct ? (static_cast<std::size_t>(at - from) + bytes_ + kPage - 1) / kPage * kPage : bytes_;
        ::io_uring_prep_read(entry, is_direct ? direct_ : fd_, memory_ + free.back() * slot_bytes(),
                             static_cast<unsigned>(count), static_cast<std::uint64_t>(from));
        ::io_uring_sqe_set_data64(entry, free.back());
        free.pop_back();
      }
      ::io_uring_submit_and_wait(&ring_, 1);
      io_uring_cqe* event = nullptr;
      while (::io_uring_peek_cqe(&ring_, &event) == 0) {
        require(event->res);
        free.push_back(static_cast<unsigned>(event->user_data));
        ::io_uring_cqe_seen(&ring_, event);
        ++done;
      }
    }
  }

 private:
  [[nodiscard]] std::size_t slot_bytes() const { return bytes_ / kPage * kPage + 2 * kPage; }
  [[nodiscard]] std::int64_t offset(std::int64_t id) const { return first_ + id * stride_; }
  void require(std::int64_t got) const {
    if (got < static_cast<std::int64_t>(bytes_)) throw std::runtime_error("read a sample");
  }

  fs::path path_;
  int fd_;
  int direct_;
  std::size_t bytes_;
  char* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::vector<char> batch_;
  char* memory_;
  std::int64_t first_ = 0;
  std::int64_t stride_ = 0;
  io_uring ring_{};
};

struct Format {
  std::string name;
  std::string file;
  std::function<std::shared_ptr<const rota::Source>(const rota::Catalog&, const Size&)> open;
};

const std::vector<Format>& formats() {
  const auto by_name = [](const std::string& name) {
    return [name](const rota::Catalog& catalog, const Size&) { return rota::open(catalog, name); };
  };
  static const std::vector<Format> all = {
      {"npy", "npy.npy", by_name("npy")},
      {"hdf5", "hdf5.h5", by_name("hdf5")},
      {"tar", "tar", by_name("tar")},
      {"tokens", "tokens", [](const rota::Catalog& catalog, const Size& size) {
         return rota::open(catalog, rota::TokensOptions{.length = size.bytes / 2});
       }}};
  return all;
}

// Each sample is a file: beside loops that open, read and close one after the other, of one thread and of 16.
void read_files(benchmark::State& state, const Size& size) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(data(size).file("files"))) paths.push_back(entry.path());
  std::shuffle(paths.begin(), paths.end(), std::mt19937_64(1));
  const auto evict = [&] {
    for (const fs::path& path : paths) {
      const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  };
  const auto read_each = [&](std::size_t first, std::size_t step) {
    std::vector<char> memory(static_cast<std::size_t>(size.bytes));
    for (std::size_t i = first; i < paths.size(); i += step) {
      const int fd = ::open(paths[i].c_str(), O_RDONLY | O_CLOEXEC);
      if (::read(fd, memory.data(), memory.size()) != size.bytes) throw std::runtime_error("read a file");
      ::close(fd);
    }
  };
  rota::Loader loader(rota::open(data(size).file("files"), "files"),
                      {.global_batch_size = kBatch, .epochs = rota::kEndless, .workers = 1});
  double rota = 0;
  double in_turn = 0;
  double by_threads = 0;
  for (auto _ : state) {
    evict();
    const double one = seconds_of([&] {
      loader.seek({});
      for (std::size_t samples = 0; samples < paths.size();) {
        const auto batch = loader.next();
        samples += static_cast<std::size_t>(batch->size());
      }
    });
    rota += one;
    evict();
    in_turn += seconds_of([&] { read_each(0, 1); });
    evict();
    by_threads += seconds_of([&] {
      constexpr std::size_t kThreads = 16;
      std::vector<std::jthread> threads;
      for (std::size_t t = 0; t < kThreads; ++t) threads.emplace_back([&, t] { read_each(t, kThreads); });
    });
    state.SetIterationTime(one);
  }
  state.counters["samples/s"] =
      static_cast<double>(state.iterations()) * static_cast<double>(paths.size()) / rota;
  state.counters["of_16_threads"] = by_threads / rota;
  state.counters["times_one"] = in_turn / rota;
}

struct Order {
  std::string name;
  rota::Shuffle shuffle;
  std::int64_t shards;
};

// All is cached: beside a loop that copies the same samples from a mapping.
void read_mapped(benchmark::State& state, const Format& format, const Size& size) {
  const fs::path path = data(size).file(format.file);
  Bare bare(path, size.bytes);
  rota::Loader loader(format.open(rota::Catalog(path, {.access = rota::Access::mapped}), size),
                      {.global_batch_size = kBatch, .epochs = rota::kEndless, .workers = 0});
  constexpr std::int64_t kBatches = 400;
  std::vector<std::int64_t> ids;
  double rota = 0;
  double copies = 0;
  for (std::int64_t k = 0; k < size.samples / kBatch; ++k) (void)loader.next();  // into the page cache
  for (auto _ : state) {
    ids.clear();
    const double one = seconds_of([&] {
      for (std::int64_t k = 0; k < kBatches; ++k) {
        const auto batch = loader.next();
        for (const rota::SampleId id : batch->ids()) ids.push_back(id.value);
      }
    });
    rota += one;
    copies += seconds_of([&] { bare.copy(ids); });
    state.SetIterationTime(one);
  }
  state.counters["samples/s"] = static_cast<double>(state.iterations() * kBatches * kBatch) / rota;
  state.counters["of_copy"] = copies / rota;
}

// In the order of a file, or nearly: beside one loop that reads the file from its beginning on, 1 MiB a time.
void read_in_order(benchmark::State& state, const Order& order, const Size& size) {
  const fs::path path = data(size).file("npy.npy");
  Bare bare(path, size.bytes);
  rota::LoaderOptions options{
      .global_batch_size = kBatch, .shuffle = order.shuffle, .epochs = rota::kEndless, .workers = 1};
  options.shards = order.shards;
  rota::Loader loader(rota::open(path), options);
  double rota = 0;
  double bytes = 0;
  double in_sequence = 0;
  for (auto _ : state) {
    bare.evict();
    const double one = seconds_of([&] {
      loader.seek({});
      for (std::int64_t k = 0; k < 4 * size.batches; ++k)
        bytes += static_cast<double>((*loader.next()).size() * size.bytes);
    });
    rota += one;
    bare.evict();
    in_sequence += seconds_of([&] { bare.read_in_sequence(4 * size.batches * kBatch); });
    state.SetIterationTime(one);
  }
  state.counters["bytes/s"] = bytes / rota;
  state.counters["of_sequential"] = in_sequence / rota;
}

void read(benchmark::State& state, const Format& format, const Size& size, rota::Access access) {
  const fs::path path = data(size).file(format.file);
  Bare bare(path, size.bytes);
  const auto source = format.open(rota::Catalog(path, {.access = access}), size);
  double rota = 0;
  double in_turn = 0;
  double cached = 0;
  double direct = 0;
  rota::Loader loader(source, {.global_batch_size = kBatch, .epochs = rota::kEndless, .workers = 1});
  rota::Position start = {};
  for (auto _ : state) {
    std::vector<std::int64_t> ids;
    bare.evict();
    const double one = seconds_of([&] {
      ++start.epoch;
      loader.seek(start);  // what was read ahead is dropped
      for (std::int64_t k = 0; k < size.batches; ++k) {
        const auto batch = loader.next();
        for (const rota::SampleId id : batch->ids()) ids.push_back(id.value);
      }
    });
    rota += one;
    for (const auto& [seconds, work] : std::initializer_list<std::pair<double*, std::function<void()>>>{
             {&in_turn, [&] { bare.read_in_turn(ids); }},
             {&cached, [&] { bare.read_at_once(ids, false); }},
             {&direct, [&] {
                if (bare.has_direct()) bare.read_at_once(ids, true);
              }}}) {
      bare.evict();
      *seconds += seconds_of(work);
    }
    state.SetIterationTime(one);
  }
  state.counters["samples/s"] = static_cast<double>(state.iterations() * size.batches * kBatch) / rota;
  state.counters["of_buffered"] = cached / rota;
  if (bare.has_direct()) state.counters["of_direct"] = direct / rota;
  state.counters["times_pread"] = in_turn / rota;
}

}  // namespace

int main(int argc, char** argv) {
  const auto add = [](const std::string& name, const std::function<void(benchmark::State&)>& work) {
    benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State& state) { work(state); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  };
  for (const Size& size : kSizes) {
    for (const Format& format : formats()) {
      for (const rota::Access access : {rota::Access::cached, rota::Access::direct}) {
        add(fmt::format("cold/{}/{}KiB/{}", format.name, size.bytes >> 10, rota::to_string(access)),
            [&, access](benchmark::State& state) { read(state, format, size, access); });
      }
    }
  }
  add("cold/files/16KiB", [](benchmark::State& state) { read_files(state, kSizes[1]); });
  static const Size kMapped[] = {{1 << 10, 1 << 20, 0}, {4 << 10, 1 << 17, 0}};
  add("mapped/npy/1KiB", [](benchmark::State& state) { read_mapped(state, formats()[0], kMapped[0]); });
  add("mapped/tokens/4KiB", [](benchmark::State& state) { read_mapped(state, formats()[3], kMapped[1]); });
  static const Order orders[] = {{"none", rota::Shuffle::none, 256},
                                 {"none of one shard", rota::Shuffle::none, 1},
                                 {"block of one shard", rota::Shuffle::block, 1}};
  for (const Order& order : orders) {
    add(fmt::format("order/{}/16KiB", order.name),
        [&](benchmark::State& state) { read_in_order(state, order, kSizes[1]); });
  }
  add("order/block of one shard/1KiB",
      [](benchmark::State& state) { read_in_order(state, orders[2], kSizes[0]); });
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
