#include "catalog/list_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <unordered_set>

#include "catalog/file_names.hpp"
#include "catalog/name_pattern.hpp"
#include "core/failure.hpp"
#include "core/wait.hpp"
#include "files/descriptor.hpp"

namespace rota::internal {

namespace {

std::string_view left_out_text(const Listed& listed) {
  return listed.left_out == 0 ? "" : ", but hidden or left-over ones (all_names)";
}

// A storage must list names that begin alike, in order, each once.
void require_next(const std::string& path, const std::string& beginning,
                  const std::optional<std::string>& before, const std::string& name) {
  if (!name.starts_with(beginning) || (before && name <= *before)) {
    throw failure(ErrorCode::corrupt,
                  "list {}: its storage lists \"{}\" after \"{}\"; it must list names that begin with "
                  "\"{}\", in order, each once",
                  path, name, before.value_or(""), beginning);
  }
  if (name.find('\0') != std::string::npos) {
    throw failure(ErrorCode::unsupported,
                  "list {}: the name after \"{}\" has a zero byte in it; give the file another", path,
                  before.value_or(""));
  }
}

// Visits the names that begin with or match `path` in a storage, or the one file of that name.
Listed list_stored(const std::string& path, const StoredPath& stored, bool all_names,
                   const NameVisitor& visit, bool may_be_glob = true) {
  const std::string& name = stored.name;
  const std::string scheme = path.substr(0, path.size() - name.size());
  if (!name.empty() && !name.ends_with('/')) {
    if (const auto file = find_stored(stored, path)) {
      const std::size_t last = name.rfind('/') + 1;
      visit("", std::string_view(name).substr(last));
      return {.directory = scheme + name.substr(0, last), .stats = {stat_of(*file, path)}};
    }
  }
  const auto has_below = [&](const std::string& directory) {
    bool is_there = false;
    visit_stored({stored.storage, directory + '/', {}}, path,
                 [&](const StoredFile& /*file*/) { return !(is_there = true); });  // one will do
    return is_there;
  };
  // Brackets are what names have. Each look is a request.
  const auto is_name = [&](const std::string& directory) {
    return directory.find('[') != std::string::npos && has_below(directory);
  };
  const std::string plain = name.substr(0, name.find_last_not_of('/') + 1);
  const bool is_pattern = may_be_glob && is_glob(name) && !is_name(plain);
  const std::string pattern = is_pattern ? glob_of(name, is_name) : std::string();
  const std::string prefix = is_pattern                            ? fixed_directory(pattern)
                             : name.empty() || name.ends_with('/') ? name
                                                                   : name + '/';
  const std::string beginning = is_pattern ? pattern.substr(0, pattern.find_first_of("*?[\\")) : prefix;
  Listed listed{.directory = scheme + prefix};
  const auto take = [&](const StoredFile& file) {
    if (file.name.ends_with('/')) return;  // marks a directory
    if (is_pattern && !matches_glob(pattern, file.name)) return;
    const std::string_view below = std::string_view(file.name).substr(prefix.size());
    if (!all_names && has_leftover(below)) {
      ++listed.left_out;
      return;
    }
    visit("", below);
    listed.stats.push_back(stat_of(file, scheme + file.name));
  };
  std::optional<std::string> before;
  visit_stored({stored.storage, beginning, {}}, path, [&](const StoredFile& file) {
    require_next(path, beginning, before, file.name);
    before = file.name;
    take(file);
    return true;
  });
  if (!listed.stats.empty()) return listed;
  if (is_pattern && has_below(plain)) return list_stored(path, stored, all_names, visit, false);
  throw failure(ErrorCode::not_found, "open {}: its storage has no file {}{}; check the path", path,
                is_pattern ? "that matches" : "of that name, nor below it", left_out_text(listed));
}

/// The marks of datasets that rota has not written to their end, beside their shards. A directory has them; a
/// glob of shards need not match them.
class UnfinishedMarks {
 public:
  explicit UnfinishedMarks(const std::string& path) : path_(path) {}

  // Whether the name is one.
  bool see(std::string_view below, std::string_view name) {
    const std::size_t begin = name.rfind('/') + 1;
    const std::string_view last = name.substr(begin);
    for (const std::string_view ending : {".tar", ".mds", ".tfrecord"}) {
      if (!last.ends_with(ending)) continue;
      const bool is_mark = last.size() == kUnfinished.size() + ending.size() && last.starts_with(kUnfinished);
      if (is_mark || (is_glob(path_) && last.starts_with(kShardStem)))
        marks_.insert(fmt::format("{}{}{}{}", below, name.substr(0, begin), kUnfinished, ending));
      if (is_mark) return true;
    }
    return false;
  }
  void require_none(const std::string& directory, const Storages& storages) const {
    if (marks_.empty()) return;
    const Location location(directory, storages);
    for (const std::string& mark : marks_) {
      // Who writes shards and may not delete the mark empties it.
      if (location.probe(mark) == ENOENT || location.stat(mark).bytes == 0) continue;
      throw failure(ErrorCode::corrupt,
                    "open {}: {} says that its shards are not all written; let what writes them run again "
                    "(rota shard, write_shards), with the same options",
                    path_, mark);
    }
  }

 private:
  const std::string& path_;
  std::set<std::string> marks_;  // those that were seen, or that there may be
};

// Visits the names that the ranges of `path` stand for, which need no list.
Listed list_ranges(const std::string& path, const NameVisitor& visit) {
  const std::size_t below = path.rfind('/', find_range(path)) + 1;
  if (path.find_first_of("*?", below) != std::string::npos) {
    throw failure(
        ErrorCode::invalid_argument,
        "open {}: ranges name files that are not looked for, and a glob looks for them; use one of both",
        path);
  }
  std::unordered_set<std::string> seen;
  constexpr double kMostOfRanges = 1e7;
  if (count_names(path) > kMostOfRanges) {
    throw failure(
        ErrorCode::invalid_argument,
        "open {}: its ranges name more than {} files; name them by a pattern (from_pattern of a catalog)",
        path, kMostOfRanges);
  }
  expand_ranges(path.substr(below), [&](const std::string& name) {
    Wait::here().check();
    if (!seen.insert(name).second) {
      throw failure(ErrorCode::invalid_argument,
                    "open {}: its ranges name {} twice; put something between them", path, name);
    }
    visit("", name);
  });
  return {path.substr(0, below)};
}

// Visits what a path of a file system, with that status, names. Without one it is a glob.
Listed list_local(const std::string& path, const std::optional<struct stat>& status,
                  const CatalogOptions& options, bool all_names, const NameVisitor& visit) {
  const bool is_directory = status && S_ISDIR(status->st_mode);
  const std::string pattern = status ? std::string() : glob_of(path, [](const std::string& directory) {
    return ::access(directory.c_str(), F_OK) == 0;
  });
  const Location location(is_directory ? path + (path.ends_with('/') ? "" : "/")
                          : status     ? path.substr(0, path.rfind('/') + 1)
                                       : fixed_directory(pattern),
                          options.storages);
  const int root = location.root().get();
  Listed listed{location.directory()};
  bool is_any = false;
  const NameVisitor note = [&](std::string_view below, std::string_view name) {
    is_any = true;
    visit(below, name);
  };
  const std::string below_directory = pattern.substr(std::min(pattern.size(), listed.directory.size()));
  if (is_directory || below_directory.find(kAnyDepth) != std::string::npos) {
    listed.left_out = walk_directory(
        root, {.shown = listed.directory, .threads = options.listing_threads, .all_names = all_names},
        [&](std::string_view below, std::string_view name) {
          if (is_directory || matches_glob(below_directory, fmt::format("{}{}", below, name)))
            note(below, name);
        });
  } else {
    for (const std::string& name :
         status ? std::vector{path.substr(listed.directory.size())} : match_glob(pattern)) {
      if (!status && !all_names && has_leftover(name)) {
        ++listed.left_out;
      } else if (S_ISREG(stat_entry(root, name.c_str(), listed.directory).st_mode)) {
        note("", name);
      }
    }
  }
  if (is_any) return listed;
  throw failure(ErrorCode::not_found, "open {}: {} no regular file{}; check the path", path,
                is_directory ? "the directory holds"
                : status     ? "it is"
                             : "the glob matches",
                left_out_text(listed));
}

// Visits the names at `path`, marks of unfinished shards included.
Listed list_names(const std::string& path, const CatalogOptions& options, bool all_names,
                  const NameVisitor& visit) {
  if (path.empty()) throw Error(ErrorCode::invalid_argument, "open a dataset: the path is empty");
  struct stat status {};
  const int error = ::stat(path.c_str(), &status) == 0 ? 0 : errno;
  if (error != 0 && find_range(path) != std::string::npos) return list_ranges(path, visit);
  if (const StoredPath stored = parse_stored(path, options.storages); stored.storage != nullptr)
    return list_stored(path, stored, all_names, visit);
  if (error == 0) return list_local(path, status, options, all_names, visit);
  const auto has = [&](const char* ending) { return ::access((path + ending).c_str(), F_OK) == 0; };
  if (has(".idx") && has(".bin"))  // Megatron-LM's pair
    return list_names(path + ".idx", options, all_names, visit);
  if (!is_glob(path) || (error != ENOENT && error != ENOTDIR)) throw system_error("open", path, error);
  return list_local(path, std::nullopt, options, all_names, visit);
}

}  // namespace

Listed list_path(const std::string& path, const CatalogOptions& options, bool all_names,
                 const NameVisitor& visit) {
  UnfinishedMarks marks(path);
  bool is_any = false;
  Listed listed = list_names(path, options, all_names, [&](std::string_view below, std::string_view name) {
    if (marks.see(below, name)) return;
    is_any = true;
    visit(below, name);
  });
  marks.require_none(listed.directory, options.storages);
  if (is_any) return listed;
  throw failure(ErrorCode::not_found,
                "open {}: it has the mark of who writes shards, and no shards; let that run again", path);
}

}  // namespace rota::internal
