#include "source/h5py.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <iterator>
#include <stdexcept>

namespace rota::test {
namespace {

constexpr std::string_view kPreamble = R"(import sys, os, h5py, numpy as np
os.chdir(sys.argv[1])
def dump(name, array):
    with open(name.replace('/', '.') + '.raw', 'wb') as out:
        out.write(np.ascontiguousarray(array).tobytes())
)";

}  // namespace

std::filesystem::path h5py(const TemporaryDirectory& directory, std::string_view name,
                           std::string_view script, std::string_view options) {
  const auto program =
      directory.write("script.py", fmt::format("{}f = h5py.File('{}', 'w'{}{})\n{}\nf.close()\n", kPreamble,
                                               name, options.empty() ? "" : ", ", options, script));
  const auto command = fmt::format("{} {} {}", ROTA_TEST_PYTHON, program.string(), directory.path().string());
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): before any thread starts
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with {}", command, status));
  std::filesystem::remove(program);
  return directory / name;
}

std::string dumped(const TemporaryDirectory& directory, std::string_view name) {
  std::ifstream file(directory / (std::string(name) + ".raw"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace rota::test
