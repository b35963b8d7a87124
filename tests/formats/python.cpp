#include "formats/python.hpp"

namespace rota::test {
namespace {

constexpr std::string_view kPreamble = R"(import io, os, random, struct, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[3])  # for writers.py
os.chdir(sys.argv[1])
told = open(sys.argv[2], 'wb')
def tell(*parts):
    for part in parts:
        told.write(struct.pack('<Q', len(part)) + part)
)";

void run(const std::string& command) {
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): before any thread starts
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with {}", command, status));
}

}  // namespace

std::vector<std::string> python(const TemporaryDirectory& directory, std::string_view script) {
  const TemporaryDirectory elsewhere;
  const auto program = elsewhere.write("script.py", fmt::format("{}{}", kPreamble, script));
  run(fmt::format("{} {} {} {} '{}/formats'", ROTA_TEST_PYTHON, program.string(), directory.path().string(),
                  (elsewhere / "told").string(), ROTA_TESTS));
  std::vector<std::string> parts;
  std::ifstream told(elsewhere / "told", std::ios::binary);
  for (std::uint64_t bytes = 0; told.read(reinterpret_cast<char*>(&bytes), sizeof(bytes));) {
    parts.emplace_back(bytes, '\0');
    told.read(parts.back().data(), static_cast<std::streamsize>(bytes));
  }
  return parts;
}

fs::path h5py(const TemporaryDirectory& directory, std::string_view name, std::string_view script,
              std::string_view options) {
  python(directory, fmt::format("import h5py, numpy as np\nf = h5py.File('{}', 'w', {})\n{}\nf.close()\n",
                                name, options, script));
  return directory / name;
}

void write_dataset(const TemporaryDirectory& directory, std::string_view format) {
  run(fmt::format("cd {} && {} '{}/formats/write.py' {}", directory.path().string(), ROTA_TEST_PYTHON,
                  ROTA_TESTS, format));
}

Contents contents(const Source& source) {
  const Samples samples(source, all_ids(source));
  Contents all(static_cast<std::size_t>(source.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t f = 0; f < source.fields().size(); ++f) all[i].push_back(samples.sample(f, i));
  }
  return all;
}

std::int64_t descriptors_in(const fs::path& directory) {
  return std::ranges::count_if(fs::directory_iterator("/proc/self/fd"), [&](const auto& entry) {
    std::error_code error;
    return fs::read_symlink(entry.path(), error).parent_path() == directory;
  });
}

void expect_samples(const Source& source, const std::vector<std::string>& told) {
  const std::size_t fields = source.fields().size();
  ASSERT_EQ(static_cast<std::size_t>(source.size()) * fields, told.size());
  std::mt19937_64 random(1);
  for (const Ids& wanted :
       {all_ids(source), random_ids(source, told.empty() ? 0 : 2 * told.size() / fields, random)}) {
    const Samples samples(source, wanted);
    for (std::size_t i = 0; i < wanted.size() * fields; ++i) {
      const auto id = static_cast<std::size_t>(wanted[i / fields].value);
      ASSERT_EQ(samples.sample(i % fields, i / fields), told[id * fields + i % fields]) << "of sample " << id;
    }
  }
}

std::vector<fs::path> PythonTest::write_each(const std::vector<std::string>& scripts,
                                             std::string_view before) const {
  std::string all = preamble_;
  std::vector<fs::path> directories;
  for (const std::string& script : scripts) {
    directories.push_back(directory_ / std::to_string(directories.size()));
    fs::create_directories(directories.back());
    all += fmt::format("os.chdir('{}')\n{}exec(r'''{}''')\n", directories.back().string(), before, script);
  }
  python(directory_, all);
  return directories;
}

void PythonTest::expect_refused(const std::vector<Refused>& cases,
                                const std::function<void(const fs::path&)>& opening) const {
  std::vector<std::string> scripts;
  for (const Refused& one : cases) scripts.push_back(one.script);
  const auto directories = write_each(scripts);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_THAT(error_of([&] { opening(directories[i]); }),
                AllOf(is_error(cases[i].code, cases[i].words), is_error(cases[i].code, {directories[i]})))
        << cases[i].script;
  }
}

}  // namespace rota::test
