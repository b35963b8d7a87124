// What libFuzzer drives in the program fuzz_NAME: the target NAME. Where the environment has ROTA_FUZZ_SEEDS,
// its seeds are written into that directory first.

#include "fuzz/target.hpp"

namespace rota::test {
static Target target_of_program;
}  // namespace rota::test

// NOLINTBEGIN(readability-identifier-naming): libFuzzer's names

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** argv) {
  using namespace rota::test;  // NOLINT(google-build-using-namespace)
  GTEST_FLAG_SET(break_on_failure, true);
  std::signal(SIGTRAP, [](int) { std::abort(); });  // which libFuzzer takes for a find
  target_of_program = targets().at(fs::path((*argv)[0]).filename().string().substr(std::strlen("fuzz_")));
  const char* directory = std::getenv("ROTA_FUZZ_SEEDS");
  if (directory == nullptr) return 0;
  for (int number = 0; const std::string& seed : target_of_program.seeds()) {
    std::ofstream(fmt::format("{}/seed-{}", directory, number++), std::ios::binary) << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  rota::test::target_of_program.run(std::as_bytes(std::span(data, size)));
  return 0;
}

// NOLINTEND(readability-identifier-naming)
