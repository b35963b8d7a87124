#pragma once

// Datasets made by Python's libraries, writers and readers that are not ours, and what rota reads of them.

#include "source/reading.hpp"

namespace rota::test {

/// Runs `script`, with `directory` as the current one. Returns the bytes that it told by `tell(*parts)`, in
/// order. Throws std::runtime_error where Python fails.
std::vector<std::string> python(const TemporaryDirectory& directory, std::string_view script);

/// Runs `script` in a Python that has h5py, numpy as np, the open file `f` = `name` in `directory`, made with
/// the keyword arguments `options`, and `tell`. Returns the path of the file.
fs::path h5py(const TemporaryDirectory& directory, std::string_view name, std::string_view script,
              std::string_view options = "");

/// Makes the small dataset of `format` that write.py describes, whose files have odd names.
void write_dataset(const TemporaryDirectory& directory, std::string_view format);

/// What reading samples throws.
inline auto reading(const Source& source, std::initializer_list<std::int64_t> wanted) {
  return error_of([&] { Samples(source, ids(wanted)); });
}

/// Of each sample, its fields.
using Contents = std::vector<std::vector<std::string>>;
Contents contents(const Source& source);
inline std::vector<std::string> field_names(const Source& source) {
  std::vector<std::string> names;
  for (const Field& field : source.fields()) names.push_back(field.name);
  return names;
}
/// Does `work` in so many threads, each with its number.
inline void in_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < count; ++t) threads.emplace_back(work, t);
}
/// How often this process has files of a directory open.
std::int64_t descriptors_in(const fs::path& directory);
/// Each sample is what was told, sample by sample and field by field: in order, and at random.
void expect_samples(const Source& source, const std::vector<std::string>& told);

/// A dataset that cannot be opened, and what is said of it.
struct Refused {
  Refused(std::string made_by, ErrorCode error, std::vector<std::string> said)
      : script(std::move(made_by)), code(error), words(std::move(said)) {}

  std::string script;
  ErrorCode code;
  std::vector<std::string> words;
};

/// A directory in which Python's libraries write.
class PythonTest : public Test {
 protected:
  /// `preamble` goes before all scripts, and `each` before each.
  explicit PythonTest(std::string preamble = "", std::string each = "")
      : preamble_(std::move(preamble)), each_(std::move(each)) {}

  std::vector<std::string> write(const std::string& script) const {
    return python(directory_, preamble_ + each_ + script);
  }
  /// Runs each script in a directory of its own, all by one Python. Returns the directories.
  std::vector<fs::path> write_each(const std::vector<std::string>& scripts) const {
    return write_each(scripts, each_);
  }
  /// The same in a Python that has in each directory the open file `f` = a.h5.
  std::vector<fs::path> h5py_each(const std::vector<std::string>& scripts) const {
    return write_each(scripts, "import h5py, numpy as np\nwith h5py.File('a.h5', 'w') as f: ");
  }
  /// `opening` what each of the scripts makes, in a directory of its own, is its error, which names that.
  void expect_refused(const std::vector<Refused>& cases,
                      const std::function<void(const fs::path&)>& opening) const;
  /// The file that h5py makes by `script`, opened.
  auto open_h5(std::string_view script, std::string_view options = "") const {
    return open(h5py(directory_, "a.h5", script, options), "hdf5");
  }
  std::string at(std::string_view name) const { return (directory_ / name).string(); }

  TemporaryDirectory directory_;
  std::string preamble_;

 private:
  std::vector<fs::path> write_each(const std::vector<std::string>& scripts, std::string_view before) const;

  std::string each_;
};

}  // namespace rota::test
