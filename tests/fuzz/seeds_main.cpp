// Runs a fuzz target without a fuzzer, so that it stays alive: over its seeds, and over mutants of them.
// With an argument, writes the seeds into that directory, for libFuzzer to begin with.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "target.hpp"

namespace {

void run(const std::string& input) {
  // On the heap, and no longer than it is, so that a sanitizer sees a read past its end.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::string mutate(std::string input, std::mt19937_64& random) {
  for (auto count = 1 + random() % 4; count > 0 && !input.empty(); --count) {
    const std::size_t at = random() % input.size();
    switch (random() % 4) {
      case 0:
        input.resize(at);
        break;
      case 1:
        input.insert(at, 1 + random() % 16, static_cast<char>(random()));
        break;
      default:
        input[at] = static_cast<char>(random());
    }
  }
  return input;
}

void write(const std::vector<std::string>& seeds, const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(directory / ("seed-" + std::to_string(i)), std::ios::binary) << seeds[i];
  }
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kMutants = 1000;
  const auto seeds = rota::test::seeds();
  if (argc > 1) {
    write(seeds, argv[1]);
    return 0;
  }
  run("");
  std::mt19937_64 random(1);
  for (const std::string& seed : seeds) {
    run(seed);
    for (int i = 0; i < kMutants; ++i) run(mutate(seed, random));
  }
  std::printf("%zu seeds, %d mutants of each\n", seeds.size(), kMutants);
}
