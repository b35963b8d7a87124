#pragma once

// A directory for one test, gone with everything in it when the test ends; and files, as a test looks at
// them.

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace rota::test {

/// What is in a file; nothing, where there is none.
inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Makes a file anew, of `bytes`.
inline void write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// Damages one bit of `file`.
inline void flip(const std::filesystem::path& file, std::size_t byte, unsigned bit = 0) {
  std::string bytes = read_file(file);
  bytes.at(byte) = static_cast<char>(bytes.at(byte) ^ (1 << bit));
  write_file(file, bytes);
}

/// Names in `directory`, sorted.
inline std::vector<std::string> names_in(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

/// An empty directory under the system's one for temporary files. Other users may look inside.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rota-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::system_error(errno, std::generic_category(), "make " + pattern);
    }
    path_ = pattern;
    std::filesystem::permissions(path_,
                                 std::filesystem::perms::others_read | std::filesystem::perms::others_exec,
                                 std::filesystem::perm_options::add);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  /// Writes a file of this relative name, and the directories above it.
  std::filesystem::path write(std::string_view name, std::string_view contents) const {
    auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    write_file(path, contents);
    return path;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace rota::test
