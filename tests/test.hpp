#pragma once

// What every test includes: GoogleTest, the standard library, all of rota, and what most tests do with it.
// One precompiled header has it, so that it costs nothing.

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <ranges>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rota/rota.hpp"

namespace rota::internal {}

namespace rota::test {
namespace fs = std::filesystem;
using namespace internal;   // NOLINT(google-build-using-namespace): tests look inside
using namespace ::testing;  // NOLINT(google-build-using-namespace): its matchers are this language's verbs
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

using Numbers = std::vector<std::int64_t>;

/// A number from `low` up to `high`, at random.
inline std::int64_t draw(std::mt19937_64& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Does `work` with a generator of each seed from 0 to `count` - 1, which a failure names.
inline void for_seeds(std::uint64_t count, const std::function<void(std::uint64_t, std::mt19937_64&)>& work) {
  for (std::uint64_t seed = 0; seed < count; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    work(seed, random);
  }
}

/// first, ..., end - 1.
inline Numbers numbers_from(std::int64_t first, std::int64_t end) {
  Numbers numbers(static_cast<std::size_t>(end - first));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}
}  // namespace rota::test

#include "temporary_directory.hpp"
