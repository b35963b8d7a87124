// How much of the storage's speed do formats leave? Samples of 10 KiB at random from files in the page cache,
// read by a loader without workers and, in the same run, by a bare pread of the same bytes. Files are made by
// Python; its tarfile reads some of the tar file, too.

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "written_files.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSampleBytes = 10 << 10;
constexpr std::int64_t kSamples = 20'000;
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kBatches = 300;

// Writes <format>, and <format>.offsets: where each sample's bytes lie, as uint64.
constexpr const char* kWriter = R"(
import array, io, json, os, random, struct, sys, tarfile, time
import numpy as np
os.chdir(sys.argv[1])
n, size = int(sys.argv[2]), int(sys.argv[3])
random.seed(1)
data = random.randbytes(1 << 20)
def sample(i):
    at = i * 7919 % (len(data) - size)
    return data[at:at + size]
def offsets(name, values):
    array.array('Q', values).tofile(open(name + '.offsets', 'wb'))
with tarfile.open('tar', 'w') as tar:
    for i in range(n):
        info = tarfile.TarInfo(f'{i:06}.bin')
        info.size = size
        tar.addfile(info, io.BytesIO(sample(i)))
members = tarfile.open('tar').getmembers()
offsets('tar', [member.offset_data for member in members])
table = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    table.append(byte)
def masked(bytes):
    crc = 0xFFFFFFFF
    for byte in bytes:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
records = [sample(i) for i in range(64)]
sums = [masked(record) for record in records]
length = struct.pack('<Q', size)
with open('tfrecord', 'wb') as out:
    for i in range(n):
        out.write(length + masked(length) + records[i % 64] + sums[i % 64])
offsets('tfrecord', [i * (size + 16) + 12 for i in range(n)])
with open('lines', 'wb') as out:
    for i in range(n):
        out.write(sample(i).replace(b'\n', b' ').replace(b'\r', b' ') + b'\n')
offsets('lines', [i * (size + 1) for i in range(n)])
rows = np.frombuffer(b''.join(sample(i) for i in range(n)), 'u1').reshape(n, size)
np.save('npy.npy', rows)
head = os.path.getsize('npy.npy') - n * size
offsets('npy', [head + i * size for i in range(n)])
rows.tofile('tokens')
offsets('tokens', [i * size for i in range(n)])
rows.tofile('megatron.bin')
with open('megatron.idx', 'wb') as out:
    out.write(b'MMIDIDX\0\0' + struct.pack('<QBQQ', 1, 8, n, n + 1) + np.full(n, size // 2, 'i4').tobytes())
    out.write((np.arange(n) * size).astype('i8').tobytes() + np.arange(n + 1).astype('i8').tobytes())
offsets('megatron', [i * size for i in range(n)])
with open('a.mds', 'wb') as out:
    begin = 4 + 4 * (n + 1)
    out.write(np.uint32(n).tobytes() + (begin + np.arange(n + 1) * (size + 4)).astype('u4').tobytes())
    for i in range(n):
        out.write(np.uint32(size).tobytes() + sample(i))
json.dump(dict(version=2, shards=[dict(
    column_names=['x'], column_encodings=['bytes'], column_sizes=[None], compression=None, format='mds', version=2, samples=n,
    raw_data=dict(basename='a.mds', bytes=os.path.getsize('a.mds')), zip_data=None)]), open('index.json', 'w'))
offsets('mds', [begin + i * (size + 4) + 4 for i in range(n)])
np.savez('npz.npz', x=rows)
import zipfile
entry = zipfile.ZipFile('npz.npz').getinfo('x.npy')
extra = struct.unpack('<HH', open('npz.npz', 'rb').read(30)[26:])
begin = entry.header_offset + 30 + sum(extra) + head
offsets('npz', [begin + i * size for i in range(n)])
tar = tarfile.open('tar')
random.shuffle(members)
start = time.perf_counter()
for member in members[:2000]:
    tar.extractfile(member).read()
print(2000 / (time.perf_counter() - start), file=open('tarfile.rate', 'w'))
)";

/// The files, gone when the program ends.
class Data : public rota::bench::WrittenFiles {
 public:
  Data() : WrittenFiles(kWriter, kSamples, kSampleBytes) {}

  [[nodiscard]] std::vector<std::uint64_t> offsets(const std::string& format) const {
    std::vector<std::uint64_t> values(kSamples);
    std::ifstream values_file(file(format + ".offsets"), std::ios::binary);
    if (!values_file.read(reinterpret_cast<char*>(values.data()), kSamples * 8))
      throw std::runtime_error("read offsets");
    return values;
  }
  [[nodiscard]] double tarfile_rate() const {
    double rate = 0;
    std::ifstream(file("tarfile.rate")) >> rate;
    return rate;
  }
};

const Data& data() {
  static const Data only;
  return only;
}

/// A format, the file that a bare pread reads, and how the dataset is opened.
struct Format {
  std::string name;
  std::string file;
  std::function<std::shared_ptr<const rota::Source>(const fs::path&)> open;
};

std::shared_ptr<const rota::Source> open_tokens(const fs::path& path) {
  return rota::open(path, rota::TokensOptions{.length = kSampleBytes / 2});
}
std::shared_ptr<const rota::Source> open_mds(const fs::path& path) {
  return rota::open(path.parent_path(), "mds");
}
std::shared_ptr<const rota::Source> open_megatron(const fs::path& path) {
  return rota::open(fs::path(path).replace_extension(".idx"), "megatron");
}
std::shared_ptr<const rota::Source> open_npz(const fs::path& path) {
  return rota::open(path, rota::NpzOptions{.rows = true});
}

const std::vector<Format>& formats() {
  const auto by_name = [](const std::string& name) {
    return [name](const fs::path& path) { return rota::open(path, name); };
  };
  static const std::vector<Format> all = {{"tar", "tar", by_name("tar")},
                                          {"tfrecord", "tfrecord", by_name("tfrecord")},
                                          {"lines", "lines", by_name("lines")},
                                          {"npy", "npy.npy", by_name("npy")},
                                          {"npz", "npz.npz", open_npz},
                                          {"tokens", "tokens", open_tokens},
                                          {"megatron", "megatron.bin", open_megatron},
                                          {"mds", "a.mds", open_mds}};
  return all;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void read(benchmark::State& state, const Format& format) {
  const fs::path path = data().file(format.file);
  const std::vector<std::uint64_t> offsets = data().offsets(format.name);
  rota::Loader loader(format.open(path), {.global_batch_size = kBatch,
                                          .seed = 7,
                                          .tail = rota::Tail::carry,
                                          .epochs = rota::kEndless,
                                          .workers = 0});
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  std::vector<char> memory(kBatch * kSampleBytes);
  double rota = 0;
  double bare = 0;
  std::vector<std::int64_t> ids;
  for (auto _ : state) {
    ids.clear();
    const double one = seconds_of([&] {
      for (std::int64_t k = 0; k < kBatches; ++k) {
        const auto batch = loader.next();
        for (const rota::SampleId id : batch->ids()) ids.push_back(id.value);
      }
    });
    rota += one;
    bare += seconds_of([&] {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        char* to = memory.data() + i % kBatch * kSampleBytes;
        const auto at = static_cast<off_t>(offsets[static_cast<std::size_t>(ids[i])]);
        if (::pread(fd, to, kSampleBytes, at) != kSampleBytes)
          throw std::runtime_error("read " + path.string());
      }
    });
    state.SetIterationTime(one);
  }
  ::close(fd);
  const auto samples = static_cast<double>(state.iterations() * kBatches * kBatch);
  state.counters["samples/s"] = samples / rota;
  state.counters["of_pread"] = bare / rota;
  if (format.name == "tar") state.counters["times_tarfile"] = samples / rota / data().tarfile_rate();
}
// One look over a file for its samples.
void index(benchmark::State& state, const Format& format) {
  for (auto _ : state) benchmark::DoNotOptimize(format.open(data().file(format.file)));
  state.counters["samples/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kSamples), benchmark::Counter::kIsRate);
}

}  // namespace

int main(int argc, char** argv) {
  for (const Format& format : formats()) {
    benchmark::RegisterBenchmark(("read/" + format.name).c_str(),
                                 [&format](benchmark::State& state) { read(state, format); })
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark(("index/" + format.name).c_str(), [&format](benchmark::State& state) {
      index(state, format);
    })->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
