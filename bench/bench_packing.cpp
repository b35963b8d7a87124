// What does packing cost? Documents of 100 to 1,000 tokens in the page cache, read at random: packed into
// sequences, and in the same run, one sample a document, by the plain loader; beside both, the limit: memcpy
// of the bytes of a packed batch, segments and positions included, from one place in memory to another.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"
#include "rota/packing.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kDocuments = 200'000;
constexpr std::int64_t kBatchTokens = 1 << 15;
constexpr std::int64_t kMeanTokens = 550;
constexpr std::int64_t kBatches = 160;  // in turn, so that what else the machine does meets all alike

template <typename T>
void put(std::ofstream& file, const std::vector<T>& values) {
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(T)));
}

/// A pair of files as Megatron-LM writes them, gone when the program ends.
class Documents {
 public:
  explicit Documents(std::size_t token_bytes)
      : path_(fs::temp_directory_path() / fmt::format("rota-bench-{}-{}", getpid(), token_bytes)) {
    std::mt19937_64 random(1);
    std::vector<std::int32_t> lengths(kDocuments);
    std::vector<std::int64_t> places(kDocuments);
    std::vector<std::int64_t> numbers(kDocuments + 1);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = std::uniform_int_distribution<std::int32_t>(100, 1000)(random);
      places[i] = bytes;
      numbers[i + 1] = static_cast<std::int64_t>(i + 1);
      bytes += lengths[i] * static_cast<std::int64_t>(token_bytes);
    }
    std::ofstream index(idx(), std::ios::binary);
    index.write("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17);
    index.put(token_bytes == 2 ? '\10' : '\4');
    put(index, std::vector<std::uint64_t>{kDocuments, kDocuments + 1});
    put(index, lengths);
    put(index, places);
    put(index, numbers);
    std::ofstream data(fs::path(idx()).replace_extension(".bin"), std::ios::binary);
    std::vector<std::uint64_t> words(static_cast<std::size_t>(bytes) / 8 + 1);
    for (auto& word : words) word = random();
    put(data, words);
    if (!index.flush() || !data.flush()) throw std::runtime_error("write " + idx().string());
  }
  ~Documents() {
    fs::remove(idx());
    fs::remove(fs::path(idx()).replace_extension(".bin"));
  }
  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  [[nodiscard]] fs::path idx() const { return fs::path(path_).replace_extension(".idx"); }

 private:
  fs::path path_;
};

const Documents& documents(std::int64_t token_bytes) {
  static const Documents two(2);
  static const Documents four(4);
  return token_bytes == 2 ? two : four;
}

rota::Loader make_loader(std::shared_ptr<const rota::Source> source, std::int64_t batch, int workers) {
  return {std::move(source),
          {.global_batch_size = batch,
           .seed = 7,
           .tail = rota::Tail::carry,
           .epochs = rota::kEndless,
           .workers = workers}};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Steps of a loader, and what they took.
struct Reader {
  rota::Loader loader;
  double seconds = 0;
  double cpu_seconds = 0;
  double token_bytes = 0;
  double all_bytes = 0;

  void run() {
    const std::clock_t cpu = std::clock();
    seconds += seconds_of([&] {
      for (std::int64_t k = 0; k < kBatches; ++k) {
        const auto batch = loader.next();
        for (std::size_t f = 0; f < batch->fields().size(); ++f) {
          const auto bytes = static_cast<double>(batch->tensor(f).bytes.size());
          token_bytes += f == 0 ? bytes : 0;
          all_bytes += bytes;
        }
      }
    });
    cpu_seconds += static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  }
};

/// One iteration: as many tokens packed, as documents, and copied.
void pack(benchmark::State& state) {
  const std::int64_t length = state.range(1);
  const auto workers = static_cast<int>(state.range(2));
  const std::shared_ptr<const rota::Source> source = rota::open(documents(state.range(0)).idx(), "megatron");
  Reader plain{make_loader(source, kBatchTokens / kMeanTokens, workers)};
  Reader packed{
      make_loader(rota::pack(source, {.length = length, .eos = 1}), kBatchTokens / length, workers)};
  const auto batch_bytes = static_cast<std::size_t>(kBatchTokens * (state.range(0) + 8));
  std::vector<char> from(batch_bytes, 1);
  std::vector<char> to(5 * batch_bytes, 1);
  double copy_seconds = 0;
  for (auto _ : state) {
    const double before = packed.seconds;
    packed.run();
    state.SetIterationTime(packed.seconds - before);
    plain.run();
    copy_seconds += seconds_of([&] {
      for (std::int64_t k = 0; k < kBatches; ++k) {
        std::memcpy(&to[static_cast<std::size_t>(k % 5) * batch_bytes], from.data(), batch_bytes);
        benchmark::ClobberMemory();
      }
    });
  }
  const double packed_cpu = packed.token_bytes / packed.cpu_seconds;
  const double packed_rate = packed.token_bytes / packed.seconds;
  const double plain_rate = plain.token_bytes / plain.seconds;
  state.counters["tokens_B/s"] = packed_rate;
  state.counters["plain_B/s"] = plain_rate;
  state.counters["of_plain"] = packed_rate / plain_rate;
  state.counters["of_plain_cpu"] = packed_cpu / (plain.token_bytes / plain.cpu_seconds);
  state.counters["all_B/s"] = packed.all_bytes / packed.seconds;
  state.counters["of_memcpy"] = copy_seconds / packed.seconds;
}
BENCHMARK(pack)
    ->ArgNames({"token_bytes", "length", "workers"})
    ->ArgsProduct({{2, 4}, {2048, 8192}, {0, 1, 2}})
    ->UseManualTime()
    ->MinTime(1)
    ->Unit(benchmark::kMillisecond);

/// Where documents end, found out anew.
void prepare(benchmark::State& state) {
  const std::shared_ptr<const rota::Source> source = rota::open(documents(2).idx(), "megatron");
  for (auto _ : state) {
    benchmark::DoNotOptimize(rota::pack(source, {.threads = static_cast<int>(state.range(0))}));
  }
  state.counters["documents/s"] =
      benchmark::Counter(static_cast<double>(state.iterations() * kDocuments), benchmark::Counter::kIsRate);
}
BENCHMARK(prepare)->ArgName("threads")->Arg(1)->Arg(2)->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);

/// Documents of which only the lengths are there: those of web text, up to 8,192 tokens.
class Lengths final : public rota::Source {
 public:
  explicit Lengths(std::int64_t size) : lengths_(static_cast<std::size_t>(size)) {
    std::mt19937_64 random(1);
    std::lognormal_distribution<float> any(6.5F, 1.0F);
    for (std::uint16_t& length : lengths_)
      length = static_cast<std::uint16_t>(std::clamp(any(random), 1.0F, 8192.0F));
  }
  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(lengths_.size()); }
  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  void rows(std::span<const rota::SampleId> ids, std::size_t /*field*/,
            std::span<std::int64_t> out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) out[i] = lengths_[static_cast<std::size_t>(ids[i].value)];
  }
  void read(std::span<const rota::SampleId> /*ids*/, const rota::BatchView& /*out*/) const override {}

 private:
  std::vector<std::uint16_t> lengths_;
  std::vector<rota::Field> fields_{{.name = "tokens", .dtype = rota::DType::uint16, .ragged = true}};
};

/// Which documents stand in which sequence, of lengths that are in memory, on one thread. The variable
/// ROTA_BENCH_DOCUMENTS says how many: 100000000 take 3 GB.
void fit(benchmark::State& state) {
  const auto source = std::make_shared<Lengths>(state.range(0));
  const auto by = state.range(1) == 0 ? rota::Fit::concat : rota::Fit::best;
  rota::PackFacts facts;
  for (auto _ : state) facts = rota::packing_of(*rota::pack(source, {.fit = by, .threads = 1}));
  state.counters["documents/s"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)),
                                                     benchmark::Counter::kIsRate);
  state.counters["fill"] = facts.fill;
  state.counters["cut"] = static_cast<double>(facts.cut) / static_cast<double>(facts.documents);
}
BENCHMARK(fit)
    ->ArgNames({"documents", "best"})
    ->Apply([](auto* made) {
      const char* documents = std::getenv("ROTA_BENCH_DOCUMENTS");  // NOLINT(concurrency-mt-unsafe)
      for (const int best : {0, 1})
        made->Args({documents == nullptr ? 10'000'000 : std::stoll(documents), best});
    }) -> Iterations(1) -> UseRealTime() -> Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
