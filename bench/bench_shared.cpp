// What does a compressed file cost that is unpacked into memory that ranks share? Samples from a shared file,
// read by a loader without workers, beside the same bytes copied out of plain memory and read by pread from
// memory with a descriptor; and unpacking beside what the libraries take for it.

#include <benchmark/benchmark.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "files/memory_file.hpp"
#include "formats/file_memory.hpp"
#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFileBytes = 128 << 20;
constexpr std::int64_t kBatchBytes = 4 << 20;

// Of this thread on a processor: nothing here waits but for one.
double seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const std::function<void()>& work) {
  const double start = seconds();
  work();
  return seconds() - start;
}

// Lines of `line_bytes` bytes, newline and all, of random words.
std::string make_text(std::int64_t line_bytes) {
  std::mt19937_64 random(1);
  std::string text;
  while (std::ssize(text) < kFileBytes) {
    const std::string word = std::to_string(random());
    while (text.size() % 64 != 60) text += word.substr(0, 4);
    text += "    ";
    text.resize(text.size() / 64 * 64);
  }
  text.resize(static_cast<std::size_t>(kFileBytes / line_bytes * line_bytes));
  for (std::size_t at = static_cast<std::size_t>(line_bytes) - 1; at < text.size();
       at += static_cast<std::size_t>(line_bytes)) {
    text[at] = '\n';
  }
  return text;
}

std::string zstd_of(std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

std::string gzip_of(std::string& text) {
  constexpr int kGzip = 16 + MAX_WBITS;
  z_stream stream{};
  std::string packed(text.size() + (1 << 20), '\0');
  if (::deflateInit2(&stream, 6, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (::deflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

/// A text, and a file of it, compressed by `pack`.
struct Data {
  Data(const std::string& name, std::int64_t line_bytes, std::string (*pack)(std::string&))
      : text(make_text(line_bytes)), packed(pack(text)) {
    std::string pattern = (fs::temp_directory_path() / "rota-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("make " + pattern);
    directory = pattern;
    std::ofstream(directory / name, std::ios::binary) << packed;
  }
  ~Data() { fs::remove_all(directory); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  std::string text;
  std::string packed;
  fs::path directory;
};

void read(benchmark::State& state) {
  const std::int64_t bytes = state.range(0);
  const Data data("a.jsonl.zst", bytes, zstd_of);
  rota::Loader loader(rota::open(data.directory), {.global_batch_size = kBatchBytes / bytes,
                                                   .shards = 1,
                                                   .interleave = 1,
                                                   .shuffle = rota::Shuffle::within,
                                                   .epochs = rota::kEndless,
                                                   .workers = 0});
  rota::internal::MemoryFile file;
  file.append(std::as_bytes(std::span(data.text)));
  const auto size = static_cast<std::size_t>(bytes - 1);
  std::string memory(static_cast<std::size_t>(kBatchBytes), '\0');
  double shared = 0;
  double plain = 0;
  double pread = 0;
  (void)loader.next();
  for (auto _ : state) {
    std::optional<rota::Batch> batch;
    const double one = seconds_of([&] { batch = loader.next(); });
    shared += one;
    const auto each = [&](auto&& take) {
      std::size_t to = 0;
      for (const rota::SampleId id : batch->ids()) take(memory.data() + to, id.value * bytes), to += size;
    };
    plain += seconds_of(
        [&] { each([&](char* to, std::int64_t at) { std::memcpy(to, data.text.data() + at, size); }); });
    pread += seconds_of([&] {
      each([&](char* to, std::int64_t at) {
        if (::pread(file.get(), to, size, at) != static_cast<ssize_t>(size)) std::abort();
      });
    });
    state.SetIterationTime(one);
  }
  state.counters["bytes/s"] = static_cast<double>(state.iterations() * kBatchBytes) / shared;
  state.counters["of_memcpy"] = plain / shared;
  state.counters["pread_of_memcpy"] = plain / pread;
}
BENCHMARK(read)->Name("read")->Arg(10 << 10)->Arg(100 << 10)->UseManualTime()->Unit(benchmark::kMillisecond);

void unpack_with_library(Data& data, bool is_zstd, std::string& raw) {
  if (is_zstd) {
    if (ZSTD_isError(ZSTD_decompress(raw.data(), raw.size(), data.packed.data(), data.packed.size())) != 0)
      std::abort();
    return;
  }
  z_stream stream{};
  if (::inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) std::abort();
  stream.next_in = reinterpret_cast<Bytef*>(data.packed.data());
  stream.avail_in = static_cast<uInt>(data.packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(raw.data());
  stream.avail_out = static_cast<uInt>(raw.size());
  if (::inflate(&stream, Z_FINISH) != Z_STREAM_END) std::abort();
  ::inflateEnd(&stream);
}

// The library has its memory ready.
void unpack(benchmark::State& state, bool is_zstd) {
  Data data("a", 10 << 10, is_zstd ? zstd_of : gzip_of);
  const rota::internal::FileList files = rota::internal::files_of(rota::Catalog(data.directory));
  const rota::internal::FileEncoding as{
      .compression = is_zstd ? rota::internal::Compression::zstd : rota::internal::Compression::gzip,
      .raw_bytes = std::ssize(data.text)};
  std::string raw(data.text.size(), 'x');
  double shared = 0;
  double library = 0;
  for (auto _ : state) {
    std::shared_ptr<const rota::internal::FileMemory> memory;
    const double one = seconds_of([&] { memory = rota::internal::fetch_file(files, 0, as); });
    shared += one;
    library += seconds_of([&] { unpack_with_library(data, is_zstd, raw); });
    state.SetIterationTime(one);
  }
  state.counters["bytes/s"] = static_cast<double>(state.iterations() * std::ssize(data.text)) / shared;
  state.counters["of_library"] = library / shared;
}
BENCHMARK_CAPTURE(unpack, zstd, true)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(unpack, gzip, false)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
