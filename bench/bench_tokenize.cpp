// What does a transform that makes ragged fields cost? Lines of some 2,000 bytes in the page cache, which
// become tokens: by a loader whose transform makes as many as there are; in the same run, by one whose
// transform makes a fixed number (the most, the rest zeros), and by the bare tokeniser over the same lines in
// memory. "words" hashes words, "bytes" widens each byte to 4.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/loader.hpp"
#include "rota/open.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kLines = 20'000;
constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kBatches = 200;  // in turn, so that what else the machine does meets all alike
constexpr std::int64_t kMostBytes = 4'000;

/// Lines of 100 to 4,000 bytes, in words of 1 to 12 letters, in memory and in a file.
class Lines {
 public:
  Lines() : path_(fs::temp_directory_path() / fmt::format("rota-bench-{}.txt", getpid())) {
    std::mt19937_64 random(1);
    std::ofstream file(path_, std::ios::binary);
    for (std::int64_t i = 0; i < kLines; ++i) {
      const std::size_t bytes = 100 + random() % (kMostBytes - 100);
      std::string line;
      while (line.size() + 13 < bytes)
        line += std::string(1 + random() % 12, static_cast<char>('a' + random() % 26)) + ' ';
      file << line << '\n';
      lines_.push_back(std::move(line));
    }
  }
  ~Lines() { fs::remove(path_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] const std::vector<std::string>& all() const { return lines_; }

 private:
  fs::path path_;
  std::vector<std::string> lines_;
};

const Lines& lines() {
  static const Lines lines;
  return lines;
}

/// Puts a line's tokens, at most as many as it has bytes, to `out`. Returns how many.
std::size_t tokenize(std::string_view line, bool is_words, std::int32_t* out) {
  if (!is_words) {
    for (const char c : line) *out++ = static_cast<std::uint8_t>(c);
    return line.size();
  }
  std::size_t count = 0;
  std::uint32_t hash = 0;
  for (const char c : line) {
    if (c != ' ') {
      hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619U;
    } else {
      out[count++] = static_cast<std::int32_t>(hash % 50'000);
      hash = 0;
    }
  }
  return count;
}

std::string_view text_of(const rota::SampleView& in) {
  return {reinterpret_cast<const char*>(in.bytes[0].data()), in.bytes[0].size()};
}

rota::Loader make_loader(int workers, rota::Transform transform) {
  return {rota::open(lines().path(), "lines"),
          {.global_batch_size = kBatch,
           .tail = rota::Tail::carry,
           .epochs = rota::kEndless,
           .workers = workers,
           .transform = std::move(transform)}};
}

rota::Transform make_ragged(bool is_words) {
  return {.apply =
              [is_words](const rota::TransformContext&, const rota::SampleView& in, rota::SampleOutput& out) {
                const std::string_view line = text_of(in);
                const auto tokens = out.resize<std::int32_t>(0, std::ssize(line));
                const std::size_t count = tokenize(line, is_words, tokens.data());
                if (count < tokens.size()) out.resize(0, static_cast<std::int64_t>(count));
              },
          .fields = {{.name = "tokens", .dtype = rota::DType::int32, .shape = {}, .ragged = true}}};
}

rota::Transform make_fixed(bool is_words) {
  const std::int64_t most = is_words ? kMostBytes / 2 : kMostBytes;
  return {.apply =
              [is_words](const rota::TransformContext&, const rota::SampleView& in, rota::SampleOutput& out) {
                const auto tokens = out.as<std::int32_t>(0);
                const std::size_t count = tokenize(text_of(in), is_words, tokens.data());
                std::ranges::fill(tokens.subspan(count), 0);
              },
          .fields = {{.name = "tokens", .dtype = rota::DType::int32, .shape = {most}}}};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void steps(rota::Loader& loader) {
  for (std::int64_t k = 0; k < kBatches; ++k) {
    const auto batch = loader.next();
    benchmark::DoNotOptimize(batch->tensor(0).bytes.data());
  }
}

void tokens_of(benchmark::State& state, bool is_words) {
  const auto workers = static_cast<int>(state.range(0));
  rota::Loader ragged = make_loader(workers, make_ragged(is_words));
  rota::Loader fixed = make_loader(workers, make_fixed(is_words));
  std::vector<std::int32_t> memory(static_cast<std::size_t>(kMostBytes * kBatch * 5));
  double ragged_seconds = 0;
  double fixed_seconds = 0;
  double bare_seconds = 0;
  std::size_t next = 0;
  for (auto _ : state) {
    const double took = seconds_of([&] { steps(ragged); });
    state.SetIterationTime(took);
    ragged_seconds += took;
    fixed_seconds += seconds_of([&] { steps(fixed); });
    bare_seconds += seconds_of([&] {
      for (std::int64_t k = 0; k < kBatches * kBatch; ++k, ++next) {
        const auto slot = static_cast<std::size_t>(k % (5 * kBatch));
        tokenize(lines().all()[next * 7919 % kLines], is_words, &memory[slot * kMostBytes]);
        benchmark::ClobberMemory();
      }
    });
  }
  const double bytes = static_cast<double>(state.iterations() * kBatches * kBatch) * 2050;
  state.counters["text_B/s"] = bytes / ragged_seconds;
  state.counters["of_bare"] = bare_seconds / ragged_seconds;
  state.counters["of_fixed"] = fixed_seconds / ragged_seconds;
}
void words(benchmark::State& state) { tokens_of(state, true); }
void bytes(benchmark::State& state) { tokens_of(state, false); }
BENCHMARK(words)->ArgName("workers")->Arg(0)->Arg(1)->Arg(2)->UseManualTime()->MinTime(1)->Unit(
    benchmark::kMillisecond);
BENCHMARK(bytes)->ArgName("workers")->Arg(0)->Arg(1)->Arg(2)->UseManualTime()->MinTime(1)->Unit(
    benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
