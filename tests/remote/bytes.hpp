#pragma once

#include "test.hpp"

namespace rota::test {

inline std::string some_bytes(std::size_t count, unsigned seed = 1) {
  std::minstd_rand random(seed);
  std::string bytes(count, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

}  // namespace rota::test
