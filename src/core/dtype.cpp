#include "rota/dtype.hpp"

#include <fmt/format.h>

#include <array>

#include "rota/error.hpp"

namespace rota {
namespace {

struct Entry {
  std::string_view name;
  std::size_t size;
};

// In the order of the enumeration.
constexpr std::array<Entry, 13> kTypes{{{"boolean", 1},
                                        {"int8", 1},
                                        {"int16", 2},
                                        {"int32", 4},
                                        {"int64", 8},
                                        {"uint8", 1},
                                        {"uint16", 2},
                                        {"uint32", 4},
                                        {"uint64", 8},
                                        {"float16", 2},
                                        {"bfloat16", 2},
                                        {"float32", 4},
                                        {"float64", 8}}};
static_assert(static_cast<std::size_t>(DType::float64) + 1 == kTypes.size());

}  // namespace

std::size_t size_of(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype)].size; }

std::string_view to_string(DType dtype) noexcept { return kTypes[static_cast<std::size_t>(dtype)].name; }

DType parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].name == text) return static_cast<DType>(i);
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("read element type \"{}\": there is no such type", text));
}

}  // namespace rota
