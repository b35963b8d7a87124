#pragma once

// What each fuzz target is made of. Each is two programs: one that libFuzzer drives (preset `fuzz`), and a
// test that runs it over its seeds and simple mutants of them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rota::test {

/// Inputs to begin with: good ones, as a target's own code makes them.
std::vector<std::string> seeds();

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}
inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Ends the process, as a fuzzer's find.
#define ROTA_FUZZ_EXPECT(condition) ((condition) ? void() : __builtin_trap())

}  // namespace rota::test
