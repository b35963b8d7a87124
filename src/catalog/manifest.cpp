#include "catalog/manifest.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "catalog/place.hpp"
#include "storage/descriptor.hpp"

namespace rota::internal {
namespace {

using nlohmann::json;

constexpr std::int64_t kNotSaid = -1;  // how many samples a file has

struct ManifestEntry {
  std::string path;
  std::int64_t samples = kNotSaid;
};

/// A line of a manifest, for messages.
struct Line {
  const std::string& manifest;
  std::int64_t number;

  [[nodiscard]] Error wrong(std::string_view what) const {
    return {ErrorCode::invalid_argument,
            fmt::format("read the manifest {}: line {}: {}", manifest, number, what)};
  }
};

ManifestEntry parse_json(const std::string& text, const Line& line) {
  ManifestEntry entry;
  try {
    const json object = json::parse(text);
    entry.path = object.at("path").get<std::string>();
    if (const auto samples = object.find("samples"); samples != object.end()) {
      if (!samples->is_number_integer()) throw line.wrong("\"samples\" is no whole number");
      entry.samples = samples->get<std::int64_t>();
      if (entry.samples < 0) throw line.wrong(fmt::format("{} samples cannot be", samples->dump()));
    }
  } catch (const json::exception& error) {
    throw line.wrong(fmt::format(
        "it is no JSON object with a string \"path\" and, perhaps, a number \"samples\" ({})", error.what()));
  }
  return entry;
}

ManifestEntry parse(const std::string& text, const Line& line) {
  ManifestEntry entry = text.starts_with('{') ? parse_json(text, line) : ManifestEntry{.path = text};
  if (entry.path.empty()) throw line.wrong("the path is empty");
  if (entry.path.find('\0') != std::string::npos) throw line.wrong("the path has a zero byte in it");
  return entry;
}

// "s3://" of a URL that a storage has; empty for a path of a file system.
std::string scheme_of(const std::string& path, const Storages& storages, const Line& line) {
  try {
    const StoredPath stored = parse_stored(path, storages);
    return stored.storage == nullptr ? std::string() : path.substr(0, path.size() - stored.name.size());
  } catch (const Error& error) {
    throw line.wrong(error.what());
  }
}

}  // namespace

std::string list_manifest(const std::string& path, const NameVisitor& visit, const Storages& storages,
                          std::vector<std::int64_t>& samples) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw system_error("open the manifest", path, errno);
  // A pipe has no directory for relative paths, and could not be read again, when a saved catalog is.
  if (!S_ISREG(status.st_mode)) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("read the manifest {}: it is no regular file; write the list to a file first", path));
  }
  errno = 0;
  std::ifstream file(path);
  if (!file) throw system_error("open the manifest", path, errno == 0 ? EIO : errno);
  std::unordered_map<std::string, std::int64_t> lines;  // of each path
  std::optional<std::string> scheme;                    // of all of them: "s3://", or empty
  std::string text;
  for (std::int64_t number = 1; std::getline(file, text); ++number) {
    if (text.ends_with('\r')) text.pop_back();
    if (text.empty()) continue;
    const Line line{.manifest = path, .number = number};
    ManifestEntry entry = parse(text, line);
    entry.path = local_path(std::move(entry.path));
    const std::string own = scheme_of(entry.path, storages, line);
    if (scheme.value_or(own) != own)
      throw line.wrong("it is in another place than the files before; list those of one place");
    if (entry.path.size() == own.size()) throw line.wrong("it names no file");
    scheme = own;
    const auto [known, is_new] = lines.emplace(entry.path, number);
    if (!is_new) throw line.wrong(fmt::format("{} is listed on line {} already", entry.path, known->second));
    visit("", std::string_view(entry.path).substr(own.size()));
    samples.push_back(entry.samples);
  }
  if (file.bad()) throw Error(ErrorCode::io, system_error("read", path, EIO).what());
  if (samples.empty())
    throw Error(ErrorCode::not_found, fmt::format("read the manifest {}: it lists no files", path));
  if (std::all_of(samples.begin(), samples.end(), [](std::int64_t n) { return n == kNotSaid; }))
    samples.clear();
  return scheme->empty() ? path.substr(0, path.rfind('/') + 1) : *scheme;
}

}  // namespace rota::internal
