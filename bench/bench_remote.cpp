// How fast do objects come over HTTP? Objects, and datasets of several formats, from an S3 server on loopback
// that waits before each first byte, and, in the same run, the same bytes by plain threads with one
// connection each. What does a request cost the processor? And how fast are names listed, and proved by a
// sample? Beside it, what the server's waits alone take, one after the other.

#include <benchmark/benchmark.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "remote/server_process.hpp"
#include "rota/catalog.hpp"
#include "rota/loader.hpp"
#include "rota/object_storage.hpp"
#include "rota/open.hpp"
#include "rota/write_shards.hpp"
#include "temporary_directory.hpp"
#include "written_files.hpp"

namespace {

constexpr int kConnections = 32;
constexpr double kDelay = 0.05;  // seconds before a first byte

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// A web server that waits for nothing, over the files of a directory, on a port that was free.
class Nginx {
 public:
  explicit Nginx(const std::filesystem::path& files) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    const int free = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_bound = ::bind(free, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                          ::getsockname(free, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    ::close(free);
    if (!is_bound) throw std::runtime_error("find a port");
    port_ = ::ntohs(address.sin_port);
    const std::string here = directory_.path();
    std::ofstream(directory_.path() / "nginx.conf") << fmt::format(
        "daemon off; worker_processes 1; pid {0}/pid; events {{}}\n"
        "http {{ access_log off; keepalive_requests 1000000; client_body_temp_path {0}; proxy_temp_path "
        "{0};\n"
        "fastcgi_temp_path {0}; uwsgi_temp_path {0}; scgi_temp_path {0};\n"
        "server {{ listen 127.0.0.1:{1}; root {2}; }} }}\n",
        here, port_, files.string());
    process_ = ::fork();  // NOLINT(cppcoreguidelines-prefer-member-initializer): its files come first
    if (process_ == 0) {
      ::execl("/usr/sbin/nginx", "nginx", "-p", here.c_str(), "-c", (here + "/nginx.conf").c_str(), "-e",
              "stderr", nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 500; ++i) {
      const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const bool is_there = ::connect(socket, reinterpret_cast<sockaddr*>(&address), size) == 0;
      ::close(socket);
      if (is_there) return;
      ::usleep(10'000);
    }
    throw std::runtime_error("start nginx (apt-get install nginx-light)");
  }
  ~Nginx() {
    ::kill(process_, SIGTERM);
    ::waitpid(process_, nullptr, 0);
  }
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;
  [[nodiscard]] int port() const { return port_; }

 private:
  rota::test::TemporaryDirectory directory_;
  pid_t process_ = -1;
  int port_ = 0;
};

/// Objects "b/0" and so on, each of so many bytes: of an S3 server that waits, or of nginx.
struct Objects {
  Objects(std::int64_t count, std::size_t bytes, bool by_nginx) {
    for (std::int64_t i = 0; i < count; ++i) server.put(fmt::format("b/{}", i), std::string(bytes, 'x'));
    rota::S3Options options;
    options.http.connections = kConnections;
    if (by_nginx) {
      nginx = std::make_unique<Nginx>(server.directory());
      storage = rota::http_storage("http", options.http);
      for (std::int64_t i = 0; i < count; ++i)
        files.push_back({.name = fmt::format("127.0.0.1:{}/b/{}", nginx->port(), i), .bytes = bytes});
    } else {
      const rota::S3Options other = server.options();
      options.endpoint = other.endpoint;
      options.access_key = other.access_key;
      options.secret_key = other.secret_key;
      storage = rota::s3_storage(options);
      storage->list("b/", [this](const rota::StoredFile& file) { files.push_back(file); });
    }
    memory.resize(bytes * files.size());
  }
  int port() { return nginx ? nginx->port() : server.port(); }

  rota::test::S3Server server{{"--open", "--delay", fmt::format("{}", kDelay)}};
  std::unique_ptr<const Nginx> nginx = nullptr;
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

constexpr std::size_t kPart = std::size_t{8} << 20;

/// The first `bytes` of each object of bucket b to `to`, one behind the other.
void download(int port, const std::vector<std::string>& names, std::size_t bytes, char* to) {
  const std::size_t parts = (bytes + kPart - 1) / kPart;
  const std::string url = fmt::format("http://127.0.0.1:{}/b/", port);
  by_threads(names.size() * parts, [&](CURL* easy, std::size_t i) {
    const std::size_t begin = i % parts * kPart;
    const std::size_t end = std::min(begin + kPart, bytes);
    char* at = to + i / parts * bytes + begin;
    curl_easy_setopt(easy, CURLOPT_URL, (url + names[i / parts]).c_str());
    curl_easy_setopt(easy, CURLOPT_RANGE, fmt::format("{}-{}", begin, end - 1).c_str());
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &copy);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &at);
    if (curl_easy_perform(easy) != CURLE_OK) throw std::runtime_error("download a part");
  });
}

// Of this process.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

void read(benchmark::State& state, std::int64_t count, std::size_t bytes, bool by_nginx) {
  static std::unique_ptr<Objects> objects;
  objects.reset();
  objects = std::make_unique<Objects>(count, bytes, by_nginx);
  const std::size_t parts = (bytes + kPart - 1) / kPart;
  std::vector<std::string> names;
  for (const rota::StoredFile& file : objects->files)
    names.push_back(file.name.substr(file.name.rfind('/') + 1));
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
    download(objects->port(), names, bytes, reinterpret_cast<char*>(objects->memory.data()));
  };
  by_rota();  // fresh memory, and a server that has not read its files, are nobody's speed
  plainly();
  double rota = 0;
  double plain = 0;
  double cpu = 0;
  for (auto _ : state) {
    const double before = cpu_seconds();
    const double one = seconds_of(by_rota);
    cpu += cpu_seconds() - before;
    rota += one;
    state.SetIterationTime(one);
    plain += seconds_of(plainly);
  }
  const auto all = static_cast<double>(state.iterations()) * static_cast<double>(objects->files.size());
  state.counters["objects/s"] = all / rota;
  state.counters["bytes/s"] = all * static_cast<double>(bytes) / rota;
  state.counters["of_plain"] = plain / rota;
  state.counters["cpu_us/request"] = 1e6 * cpu / (all * static_cast<double>(parts));
}

// Eight files of about 64 MiB, of samples of 128 KiB.
constexpr std::int64_t kSamples = 4096;
constexpr std::int64_t kSampleBytes = 128 << 10;
constexpr const char* kWriter = R"(
import io, os, struct, sys, tarfile
import h5py
import numpy as np
os.chdir(sys.argv[1])
n, size = int(sys.argv[2]), int(sys.argv[3])
row = np.random.default_rng(1).integers(0, 256, size, 'u1')
def masked_crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
length = struct.pack('<Q', size)
record = length + masked_crc32c(length) + row.tobytes() + masked_crc32c(row.tobytes())
for name in ('tar', 'tfrecord', 'hdf5'):
    os.mkdir(name)
np.save('rows.npy', np.broadcast_to(row, (n, size)))
for i in range(8):
    with open(f'tfrecord/{i}.tfrecord', 'wb') as file:
        file.write(record * (n // 8))
    with h5py.File(f'hdf5/{i}.h5', 'w') as file:
        file['x'] = np.broadcast_to(row, (n // 8, size))
    with tarfile.open(f'tar/{i}.tar', 'w', format=tarfile.USTAR_FORMAT) as tar:
        for k in range(n // 8):
            info = tarfile.TarInfo(f'{i}-{k:08}.bin')
            info.size = size
            tar.addfile(info, io.BytesIO(row.tobytes()))
)";

// An epoch of a dataset whose files come once to a node.
void read_format(benchmark::State& state, const std::string& format) {
  static std::unique_ptr<const rota::bench::WrittenFiles> files;
  if (files == nullptr) {
    files = std::make_unique<const rota::bench::WrittenFiles>(kWriter, kSamples, kSampleBytes);
    rota::write_shards(
        rota::open(files->file("rows.npy")), files->file("mds"),
        {.format = rota::ShardOptions::Format::mds, .shard_bytes = kSamples / 8 * kSampleBytes});
  }
  rota::test::S3Server server({"--open", "--delay", fmt::format("{}", kDelay)});
  std::filesystem::create_directory(server.directory() / "b");
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(files->file(format))) {
    std::filesystem::copy(entry.path(), server.directory() / "b" / entry.path().filename());
    if (entry.file_size() > 1 << 20) names.push_back(entry.path().filename());
  }
  rota::S3Options options = server.options();
  options.http.connections = kConnections;
  options.http.stall = std::chrono::seconds(20);
  rota::CatalogOptions catalog{.share_files = true, .shared_memory_limit = 0};
  catalog.storages["s3"] = rota::s3_storage(options);
  rota::Loader loader(rota::open(rota::Catalog("s3://b/", catalog), format),
                      {.global_batch_size = 64,
                       .shards = 8,
                       .interleave = 2,
                       .shuffle = rota::Shuffle::within,
                       .epochs = rota::kEndless,
                       .workers = 1});
  const std::size_t bytes = kSamples / 8 * kSampleBytes;
  std::vector<char> memory(names.size() * (bytes + (1 << 20)));
  const auto by_rota = [&] {
    loader.seek({.epoch = loader.position().epoch + 1});
    for (std::int64_t samples = 0; samples < kSamples;) samples += (*loader.next()).size();
  };
  const auto plainly = [&] { download(server.port(), names, bytes, memory.data()); };
  by_rota();
  plainly();
  double rota = 0;
  double plain = 0;
  for (auto _ : state) {
    const double one = seconds_of(by_rota);
    rota += one;
    state.SetIterationTime(one);
    plain += seconds_of(plainly);
  }
  const auto all = static_cast<double>(state.iterations());
  state.counters["bytes/s"] = all * kSamples * kSampleBytes / rota;
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
  const auto add = [](const std::string& name, std::int64_t count, std::size_t bytes, bool by_nginx = false) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) { read(state, count, bytes, by_nginx); })
        ->UseManualTime()
        ->Iterations(5)
        ->Unit(benchmark::kMillisecond);
  };
  add("objects of 64 MiB", 8, std::size_t{64} << 20);
  add("objects of 100 KB", 1000, 100'000);
  add("nginx: objects of 64 MiB", 8, std::size_t{64} << 20, true);
  add("nginx: objects of 4 KB", 1000, 4000, true);
  for (const char* const format : {"tar", "mds", "tfrecord", "hdf5"}) {
    benchmark::RegisterBenchmark(fmt::format("64 MiB files of {}", format).c_str(),
                                 [format](benchmark::State& state) { read_format(state, format); })
        ->UseManualTime()
        ->Iterations(5)
        ->Unit(benchmark::kMillisecond);
  }
  for (const auto& [name, work] : {std::pair("list 10^5 names", &list_names),
                                   std::pair("prove a pattern of 5*10^7 names", &prove_a_pattern)}) {
    benchmark::RegisterBenchmark(name, work)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
