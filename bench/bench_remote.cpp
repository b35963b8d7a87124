// How fast do objects come over HTTP? Ranges and whole objects from an S3 server on loopback that waits
// before each first byte, and, in the same run, the same bytes by plain threads with one connection each. And
// how fast are names listed, and proved by a sample? Beside it, what the server's waits alone take, one
// after the other.

#include <benchmark/benchmark.h>
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "remote/server_process.hpp"
#include "rota/catalog.hpp"
#include "rota/object_storage.hpp"

namespace {

constexpr int kConnections = 32;
constexpr double kDelay = 0.05;  // seconds before a first byte

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Objects "b/0" and so on, each of so many bytes.
struct Objects {
  Objects(std::int64_t count, std::size_t bytes) {
    for (std::int64_t i = 0; i < count; ++i) server.put(fmt::format("b/{}", i), std::string(bytes, 'x'));
    rota::S3Options options = server.options();
    options.http.connections = kConnections;
    options.http.stall = std::chrono::seconds(20);
    storage = rota::s3_storage(options);
    storage->list("b/", [this](const rota::StoredFile& file) { files.push_back(file); });
    memory.resize(bytes * files.size());
  }
  rota::test::S3Server server{{"--open", "--delay", fmt::format("{}", kDelay)}};
  std::shared_ptr<const rota::Storage> storage;
  std::vector<rota::StoredFile> files;
  std::vector<std::byte> memory;
};

std::size_t copy(char* data, std::size_t size, std::size_t count, void* to) {
  char*& at = *static_cast<char**>(to);
  at = std::copy_n(data, size * count, at);
  return size * count;
}

/// `work(easy, i)` for i below `count`, by threads that take one after the other.
void by_threads(std::size_t count, const std::function<void(CURL*, std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::jthread> threads;
  threads.reserve(kConnections);
  for (int t = 0; t < kConnections; ++t) {
    threads.emplace_back([&] {
      CURL* const easy = curl_easy_init();
      for (std::size_t i = next++; i < count; i = next++) work(easy, i);
      curl_easy_cleanup(easy);
    });
  }
}

void read(benchmark::State& state, std::int64_t count, std::size_t bytes) {
  static std::unique_ptr<Objects> objects;
  objects.reset();
  objects = std::make_unique<Objects>(count, bytes);
  constexpr std::size_t kPart = std::size_t{8} << 20;
  const std::size_t parts = (bytes + kPart - 1) / kPart;
  const std::string url = fmt::format("http://127.0.0.1:{}/b/", objects->server.port());
  const auto by_rota = [&] {
    std::vector<rota::StoredBytes> wanted;
    for (std::size_t i = 0; i < objects->files.size(); ++i) {
      wanted.push_back(
          {.file = &objects->files[i], .to = std::span(objects->memory).subspan(i * bytes, bytes)});
    }
    objects->storage->read(wanted);
    for (const auto& range : wanted) {
      if (range.error != nullptr) std::rethrow_exception(range.error);
    }
  };
  const auto plainly = [&] {
    by_threads(objects->files.size() * parts, [&](CURL* easy, std::size_t i) {
      const std::size_t begin = i % parts * kPart;
      const std::size_t end = std::min(begin + kPart, bytes);
      auto* at = reinterpret_cast<char*>(objects->memory.data()) + i / parts * bytes + begin;
      curl_easy_setopt(easy, CURLOPT_URL, (url + objects->files[i / parts].name.substr(2)).c_str());
      curl_easy_setopt(easy, CURLOPT_RANGE, fmt::format("{}-{}", begin, end - 1).c_str());
      curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &copy);
      curl_easy_setopt(easy, CURLOPT_WRITEDATA, &at);
      if (curl_easy_perform(easy) != CURLE_OK) throw std::runtime_error("download a part");
    });
  };
  by_rota();  // fresh memory, and a server that has not read its files, are nobody's speed
  plainly();
  double rota = 0;
  double plain = 0;
  for (auto _ : state) {
    const double one = seconds_of(by_rota);
    rota += one;
    state.SetIterationTime(one);
    plain += seconds_of(plainly);
  }
  const auto all = static_cast<double>(state.iterations()) * static_cast<double>(objects->files.size());
  state.counters["objects/s"] = all / rota;
  state.counters["bytes/s"] = all * static_cast<double>(bytes) / rota;
  state.counters["of_plain"] = plain / rota;
}

// `work` with the storages of a server that has `count` names.
void ask(benchmark::State& state, std::int64_t count,
         const std::function<void(const rota::CatalogOptions&)>& work) {
  rota::test::S3Server server(
      {"--open", "--delay", fmt::format("{}", kDelay), "--many", fmt::format("{}", count)});
  rota::CatalogOptions catalog;
  rota::S3Options options = server.options();
  options.http.connections = kConnections;
  catalog.storages["s3"] = rota::s3_storage(options);
  double seconds = 0;
  for (auto _ : state) {
    seconds = seconds_of([&] { work(catalog); });
    state.SetIterationTime(seconds);
  }
  const auto requests = static_cast<double>(server.requests().size());
  state.counters["requests"] = requests;
  state.counters["times_serial"] = requests * kDelay / seconds;
}

void list_names(benchmark::State& state) {
  ask(state, 100'000, [](const rota::CatalogOptions& options) {
    if (rota::Catalog("s3://many", options).size() != 100'000) throw std::runtime_error("list all names");
  });
}

void prove_a_pattern(benchmark::State& state) {
  constexpr std::int64_t kFiles = 50'000'000;
  ask(state, kFiles, [](const rota::CatalogOptions& options) {
    (void)rota::Catalog::from_pattern("s3://many/{folder:03}/{index:08}",
                                      {.files = kFiles, .folders = 100, .layout = rota::FolderLayout::blocks},
                                      options);
  });
}

}  // namespace

int main(int argc, char** argv) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  const auto add = [](const std::string& name, std::int64_t count, std::size_t bytes) {
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { read(state, count, bytes); })
        ->UseManualTime()
        ->Iterations(5)
        ->Unit(benchmark::kMillisecond);
  };
  add("objects of 64 MiB", 8, std::size_t{64} << 20);
  add("objects of 100 KB", 1000, 100'000);
  for (const auto& [name, work] : {std::pair("list 10^5 names", &list_names),
                                   std::pair("prove a pattern of 5*10^7 names", &prove_a_pattern)}) {
    benchmark::RegisterBenchmark(name, work)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
