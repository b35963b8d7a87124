#include "file_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

namespace rota::checkpoint {
namespace {

constexpr std::string_view kStem = "checkpoint-";
constexpr std::string_view kEnding = ".h5";
constexpr std::string_view kTemporaryEnding = ".tmp";
constexpr std::size_t kDigits = 12;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string checkpoint_name(std::int64_t serial) { return fmt::format("{}{:012}{}", kStem, serial, kEnding); }

std::string temporary_name(std::int64_t serial, std::string_view run_id) {
  return fmt::format(".{}{:012}.{}{}", kStem, serial, run_id, kTemporaryEnding);
}

std::optional<std::int64_t> serial_of(std::string_view name) {
  if (name.size() != kStem.size() + kDigits + kEnding.size()) return std::nullopt;
  if (!name.starts_with(kStem) || !name.ends_with(kEnding)) return std::nullopt;
  const std::string_view digits = name.substr(kStem.size(), kDigits);
  if (!std::ranges::all_of(digits, is_digit)) return std::nullopt;
  std::int64_t serial = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), serial);
  return serial;
}

std::vector<std::int64_t> list_serials(const FileSystem& system, const std::filesystem::path& directory) {
  std::vector<std::int64_t> serials;
  for (const std::string& name : list_names(system, directory)) {
    if (const auto serial = serial_of(name)) serials.push_back(*serial);
  }
  std::ranges::sort(serials, std::greater());
  return serials;
}

bool is_temporary(std::string_view name) {
  return name.starts_with('.') && name.substr(1).starts_with(kStem) && name.ends_with(kTemporaryEnding);
}

}  // namespace rota::checkpoint
