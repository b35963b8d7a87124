#include "file_name.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "files/file.hpp"
#include "files/temporary.hpp"

namespace rota::checkpoint {
namespace {

constexpr std::string_view kStem = "checkpoint-";
constexpr std::string_view kEnding = ".h5";
constexpr std::string_view kTemporaryEnding = ".tmp";

}  // namespace

std::string checkpoint_name(std::int64_t serial) { return fmt::format("{}{:012}{}", kStem, serial, kEnding); }

std::string temporary_name(std::int64_t serial, std::string_view job_id) {
  return fmt::format(".{}{:012}.{}{}", kStem, serial, job_id, kTemporaryEnding);
}

std::optional<std::int64_t> serial_of(std::string_view name) {
  if (!name.starts_with(kStem)) return std::nullopt;
  std::int64_t serial = -1;
  std::from_chars(name.data() + kStem.size(), name.data() + name.size(), serial);
  if (serial < 0 || serial > kMaxSerial || name != checkpoint_name(serial)) return std::nullopt;
  return serial;
}

std::vector<std::int64_t> list_serials(const internal::FileSystem& system,
                                       const std::filesystem::path& directory) {
  std::vector<std::int64_t> serials;
  for (const std::string& name : internal::list_names(system, directory)) {
    if (const auto serial = serial_of(name)) serials.push_back(*serial);
  }
  std::ranges::sort(serials, std::greater());
  return serials;
}

bool is_temporary(std::string_view name) {
  return name.starts_with('.') && name.substr(1).starts_with(kStem) && name.ends_with(kTemporaryEnding);
}

void sweep_temporaries(const internal::FileSystem& system, const std::filesystem::path& directory,
                       std::string_view job_id) {
  for (const std::string& name : internal::list_names(system, directory)) {
    if (!is_temporary(name)) continue;
    const std::string path = (directory / name).string();
    if (name.find(job_id) != std::string::npos || internal::is_dead(system, path))
      system.unlink(path.c_str());
  }
}

}  // namespace rota::checkpoint
