// Runs each target without a fuzzer, so that it stays alive.

#include "fuzz/target.hpp"

namespace rota::test::fuzz_test {

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

class Fuzz : public TestWithParam<std::pair<const std::string, Target>> {
 protected:
  static void run(const std::string& input) {
    // On the heap, and no longer than it is, so that a sanitizer sees a read past its end.
    const std::vector<char> bytes(input.begin(), input.end());
    GetParam().second.run(std::as_bytes(std::span(bytes)));
    if (HasFailure()) FAIL() << "of " << PrintToString(input);
  }
};

TEST_P(Fuzz, FindsNothingInSeedsAndMutantsOfThem) {
  run("");
  std::mt19937_64 random(1);
  for (const std::string& seed : GetParam().second.seeds()) {
    run(seed);
    for (int i = 0; i < GetParam().second.mutants && !HasFailure(); ++i) run(mutate(seed, random));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Fuzz, ValuesIn(targets()),
                         [](const auto& target) { return target.param.first; });

}  // namespace rota::test::fuzz_test
