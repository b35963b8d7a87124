// How fast does one rank hand out what it alone can read? Items of a source in memory by a dispatch, and, in
// the same run, the same items by one MPI_Send each, round robin, with nothing around it. Run it under
// mpirun; times are those of the slowest rank.

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "mpi_bench.hpp"
#include "rota/stream_loader.hpp"

namespace {

using rota_bench::Setting;
using rota_bench::slowest;

/// Items of so many bytes, without an end.
class Endless : public rota::StreamSource {
 public:
  explicit Endless(std::int64_t bytes)
      : fields_{{.name = "x", .dtype = rota::DType::uint8, .shape = {bytes}}},
        item_(static_cast<std::size_t>(bytes), std::byte{7}) {}

  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::int64_t shards() const override { return 1; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 1; }
  [[nodiscard]] std::unique_ptr<rota::ShardStream> open(rota::ShardId /*shard*/, std::int64_t /*epoch*/,
                                                        const rota::StreamCursor& /*at*/) const override {
    return std::make_unique<Stream>(item_);
  }

 private:
  class Stream : public rota::ShardStream {
   public:
    explicit Stream(const std::vector<std::byte>& item) : item_(item) {}
    bool next(rota::StreamSample& out) override {
      out.set(0, item_);
      ++count_;
      return true;
    }
    void cursor(rota::StreamCursor& out) const override { out.numbers.assign(1, count_); }

   private:
    const std::vector<std::byte>& item_;
    std::int64_t count_ = 0;
  };

  std::vector<rota::Field> fields_;
  std::vector<std::byte> item_;
};

void send_plainly(const rota::Communicator& comm, std::int64_t items, std::vector<std::byte>& item) {
  const int bytes = static_cast<int>(item.size());
  std::vector<std::byte> own(item.size());
  for (std::int64_t i = 0; i < items; ++i) {
    const int to = static_cast<int>(i % comm.size());
    if (comm.rank() == 0 && to == 0) {
      std::memcpy(own.data(), item.data(), item.size());
      benchmark::DoNotOptimize(own.data());
    } else if (comm.rank() == 0) {
      MPI_Send(item.data(), bytes, MPI_BYTE, to, 0, rota::mpi::handle_of(comm));
    } else if (comm.rank() == to) {
      MPI_Recv(item.data(), bytes, MPI_BYTE, 0, 0, rota::mpi::handle_of(comm), MPI_STATUS_IGNORE);
    }
  }
}

void dispatch(benchmark::State& state, const Setting& setting, std::int64_t batch, int workers) {
  const std::int64_t bytes = state.range(0);
  const std::int64_t steps = std::max<std::int64_t>((std::int64_t{256} << 20) / bytes / batch, 8);
  std::vector<std::byte> item(static_cast<std::size_t>(bytes));
  rota::StreamLoader loader(setting.comm,
                            rota::Dispatch{.source = std::make_shared<Endless>(bytes), .shards = 256},
                            {.global_batch_size = batch, .epochs = rota::kEndless, .workers = workers});
  const auto take = [&](std::int64_t count) {
    for (std::int64_t k = 0; k < count; ++k) benchmark::DoNotOptimize(loader.next());
  };
  take(20);
  double seconds = 0;
  double plain_seconds = 0;
  for (auto _ : state) {
    const double one = slowest(setting.comm, [&] { take(steps); });
    seconds += one;
    state.SetIterationTime(one);
    plain_seconds += slowest(setting.comm, [&] { send_plainly(setting.comm, steps * batch, item); });
  }
  const auto items = static_cast<double>(state.iterations() * steps * batch);
  state.counters["items/s"] = items / seconds;
  state.counters["bytes/s"] = items * static_cast<double>(bytes) / seconds;
  state.counters["plain_items/s"] = items / plain_seconds;
  state.counters["of_plain"] = plain_seconds / seconds;
}

}  // namespace

int main(int argc, char** argv) {
  return rota_bench::run_benchmarks(argc, argv, [](const Setting& setting) {
    const auto run = rota_bench::add;
    run("dispatch/batch_64/bytes", [](auto& s, auto& on) { dispatch(s, on, 64, 1); }, setting,
        {{1 << 10, 5}});
    run("dispatch/batch_256/bytes", [](auto& s, auto& on) { dispatch(s, on, 256, 1); }, setting,
        {{1 << 10, 5}, {16 << 10, 5}, {256 << 10, 5}});
    run("dispatch/batch_1024/bytes", [](auto& s, auto& on) { dispatch(s, on, 1024, 1); }, setting,
        {{1 << 10, 5}});
    run("dispatch/batch_1024_inside_next/bytes", [](auto& s, auto& on) { dispatch(s, on, 1024, 0); }, setting,
        {{1 << 10, 5}});
  });
}
