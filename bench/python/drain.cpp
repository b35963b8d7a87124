// The samples per second of a C++ loop over the rows of an NPY file: what bench.py compares Python's loop
// with.
//   drain FILE BATCH WORKERS SECONDS

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rota/loader.hpp"
#include "rota/open.hpp"

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("usage: drain FILE BATCH WORKERS SECONDS\n", stderr), 2;
  const double seconds = std::atof(argv[4]);
  rota::Loader loader(
      rota::open(std::string(argv[1]), "npy"),
      {.global_batch_size = std::atoll(argv[2]), .epochs = rota::kEndless, .workers = std::atoi(argv[3])},
      rota::World{});
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [begin = Clock::now()] {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::int64_t samples = 0;
  double warm = 0;
  for (double now = 0; now < seconds * 1.2; now = elapsed()) {
    const auto batch = loader.next();
    if (now < seconds * 0.2) {  // not yet
      warm = elapsed();
    } else {
      samples += batch->size();
    }
  }
  std::printf("%.0f\n", static_cast<double>(samples) / (elapsed() - warm));
}
