#include <filesystem>
#include <fstream>

#include "core/failure.hpp"
#include "ranks/collectives.hpp"
#include "rota/loader.hpp"

namespace rota {
namespace {

std::string text_of_file(const std::string& path) {
  constexpr std::uintmax_t kMost = std::uintmax_t{64} << 20;
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (path.find('\0') != std::string::npos)
    throw internal::failure(ErrorCode::invalid_argument, "read the plan {}: its name has a NUL",
                            path.c_str());
  if (status.type() == std::filesystem::file_type::not_found)
    throw internal::failure(ErrorCode::not_found, "read the plan {}: there is no such file", path);
  if (!std::filesystem::is_regular_file(status) || std::filesystem::file_size(path, failed) > kMost)
    throw internal::failure(ErrorCode::invalid_argument,
                            "read the plan {}: it is no regular file of up to 64 MiB", path);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad())
    throw internal::failure(ErrorCode::io, "read the plan {}: it cannot be read", path);
  return text;
}

}  // namespace

RunPlan read_plan(const Communicator& comm, const std::string& path, const std::vector<std::string>& names) {
  const std::string text = ranks::on_first_rank(comm, "read a plan", [&] { return text_of_file(path); });
  try {
    return parse_plan(text, names);
  } catch (const Error& error) {
    throw internal::failure(error.code(), "{}: {}", path, error.what());
  }
}

}  // namespace rota
