#include "catalog/list_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/failure.hpp"
#include "core/json.hpp"
#include "files/descriptor.hpp"
#include "files/path.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kNotSaid = -1;  // how many samples a file has

struct ManifestEntry {
  std::string path;
  std::int64_t samples = kNotSaid;
};

/// A line of a manifest, for messages.
struct Line {
  const std::string& list;
  std::int64_t number;

  [[nodiscard]] Error wrong(std::string_view what) const {
    return failure(ErrorCode::invalid_argument, "read the {}: line {}: {}", list, number, what);
  }
};

ManifestEntry parse_json(const std::string& text, const Line& line) {
  const Json parsed = Json::parse(text, nullptr, false);
  const JsonObject object(parsed, [&](std::string_view member, std::string_view why) {
    throw line.wrong(member.empty() ? "it is no JSON object" : fmt::format("\"{}\" {}", member, why));
  });
  return {.path = object.text("path"),
          .samples = object.has("samples") ? object.number("samples") : kNotSaid};
}

// "s3://" of a URL that a storage has; empty for a path of a file system.
std::string scheme_of(const std::string& path, const Storages& storages, const Line& line) {
  try {
    const bool is_stored = parse_stored(path, storages).storage != nullptr;
    return is_stored ? path.substr(0, path.find("://") + 3) : std::string();
  } catch (const Error& error) {
    throw line.wrong(error.what());
  }
}

/// Puts one entry after the other.
class Entries {
 public:
  Entries(const NameVisitor& visit, const Storages& storages) : visit_(visit), storages_(storages) {}

  void add(ManifestEntry entry, const Line& line) {
    entry.path = plain_path(std::move(entry.path));
    if (entry.path.empty()) throw line.wrong("the path is empty");
    if (entry.path.find('\0') != std::string::npos) throw line.wrong("the path has a zero byte in it");
    const std::string own = scheme_of(entry.path, storages_, line);
    if (scheme_.value_or(own) != own)
      throw line.wrong("it has another scheme than the files before; list files of one");
    if (entry.path.size() == own.size()) throw line.wrong("it names no file");
    scheme_ = own;
    const std::string plain =
        own.empty() ? std::filesystem::path(entry.path).lexically_normal().native() : entry.path;
    const auto [known, is_new] = lines_.emplace(plain, line.number);
    if (!is_new) throw line.wrong(fmt::format("{} is listed on line {} already", entry.path, known->second));
    visit_("", std::string_view(entry.path).substr(own.size()));
    samples_.push_back(entry.samples);
  }
  /// They are relative to their scheme, or to `directory`.
  Listed finish(const std::string& list, std::string_view directory) {
    if (samples_.empty()) throw failure(ErrorCode::not_found, "read the {}: it lists no files", list);
    if (std::ranges::count(samples_, kNotSaid) == std::ssize(samples_)) samples_.clear();
    return {.directory = scheme_->empty() ? std::string(directory) : *scheme_, .samples = samples_};
  }

 private:
  const NameVisitor& visit_;
  const Storages& storages_;
  std::vector<std::int64_t> samples_;
  std::unordered_map<std::string, std::int64_t> lines_;  // of each path
  std::optional<std::string> scheme_;                    // of all of them: "s3://", or empty
};

}  // namespace

Listed list_manifest(const std::string& path, const Storages& storages, const NameVisitor& visit) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw system_error("open the manifest", path, errno);
  // A pipe has no directory for relative paths, and could not be read again, when a saved catalog is.
  if (!S_ISREG(status.st_mode)) {
    throw failure(ErrorCode::invalid_argument,
                  "read the manifest {}: it is no regular file; write the list to a file first", path);
  }
  errno = 0;
  std::ifstream file(path);
  if (!file) throw system_error("open the manifest", path, errno == 0 ? EIO : errno);
  const std::string list = "manifest " + path;
  Entries entries(visit, storages);
  std::string text;
  for (std::int64_t number = 1; std::getline(file, text); ++number) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (number == 1 && text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    if (text.ends_with('\r')) text.pop_back();
    if (text.empty()) continue;
    const Line line{.list = list, .number = number};
    entries.add(text.starts_with('{') ? parse_json(text, line) : ManifestEntry{.path = text}, line);
  }
  if (file.bad()) throw Error(ErrorCode::io, system_error("read", path, EIO).what());
  return entries.finish(list, std::string_view(path).substr(0, path.rfind('/') + 1));
}

Listed list_paths(std::span<const std::string> paths, const Storages& storages, const NameVisitor& visit) {
  const std::string list = "list of paths";
  Entries entries(visit, storages);
  std::int64_t number = 0;
  for (const std::string& path : paths) entries.add({.path = path}, {.list = list, .number = ++number});
  return entries.finish(list, "");
}

}  // namespace rota::internal
