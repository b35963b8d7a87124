#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/failure.hpp"
#include "core/state_text.hpp"
#include "core/text.hpp"
#include "ranks/collectives.hpp"
#include "rota/loader.hpp"

namespace rota {
namespace {

std::string text_of_file(const std::string& path, std::string_view what) {
  constexpr std::uintmax_t kMost = std::uintmax_t{64} << 20;
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (path.find('\0') != std::string::npos)
    throw internal::failure(ErrorCode::invalid_argument, "read the {} {}: its name has a NUL", what,
                            path.c_str());
  if (status.type() == std::filesystem::file_type::not_found)
    throw internal::failure(ErrorCode::not_found, "read the {} {}: there is no such file", what, path);
  if (!std::filesystem::is_regular_file(status) || std::filesystem::file_size(path, failed) > kMost)
    throw internal::failure(ErrorCode::invalid_argument,
                            "read the {} {}: it is no regular file of up to 64 MiB", what, path);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad())
    throw internal::failure(ErrorCode::io, "read the {} {}: it cannot be read", what, path);
  return text;
}

// Of a file of numbers, apart by blanks or ends of lines.
internal::Json ids_in(const std::string& path) {
  const std::string text = text_of_file(path, "ids of samples in");
  internal::Json ids = internal::Json::array();
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto id = internal::whole_number<std::int64_t>(word);
    if (!id)
      throw internal::failure(ErrorCode::invalid_argument,
                              "read the ids of samples in {}: \"{}\" is none; give numbers alone", path,
                              internal::shown(word.substr(0, 100)));
    ids.push_back(*id);
  }
  return ids;
}

// A plan with the ids in files that it names, by their places from its folder on.
std::string with_ids(std::string text, const std::filesystem::path& folder) {
  if (text.find("leave_out") == std::string::npos) return text;
  auto json = internal::parse_json(text, [](std::string_view why) {
    throw internal::failure(ErrorCode::invalid_argument, "read a plan: {}", why);
  });
  if (!json.is_object() || !json.contains("stages")) return text;
  for (internal::Json& stage : json["stages"]) {
    if (stage.is_object() && stage.contains("leave_out") && stage["leave_out"].is_string())
      stage["leave_out"] = ids_in(folder / stage["leave_out"].get<std::string>());
  }
  return json.dump();
}

}  // namespace

RunPlan read_plan(const Communicator& comm, const std::string& path, const std::vector<std::string>& names) {
  const std::string text = ranks::on_first_rank(comm, "read a plan", [&] {
    return with_ids(text_of_file(path, "plan"), std::filesystem::path(path).parent_path());
  });
  try {
    return parse_plan(text, names);
  } catch (const Error& error) {
    throw internal::failure(error.code(), "{}: {}", path, error.what());
  }
}

}  // namespace rota
