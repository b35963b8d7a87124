#include "formats/h5py.hpp"
#include "formats/python.hpp"
#include "test.hpp"

namespace rota::test {
namespace {

constexpr std::string_view kPreamble = R"(import h5py, numpy as np
def dump(name, array):
    with open(name.replace('/', '.') + '.raw', 'wb') as out:
        out.write(np.ascontiguousarray(array).tobytes())
)";

}  // namespace

std::filesystem::path h5py(const TemporaryDirectory& directory, std::string_view name,
                           std::string_view script, std::string_view options) {
  python(directory, fmt::format("{}f = h5py.File('{}', 'w'{}{})\n{}\nf.close()\n", kPreamble, name,
                                options.empty() ? "" : ", ", options, script));
  return directory / name;
}

std::string dumped(const TemporaryDirectory& directory, std::string_view name) {
  std::ifstream file(directory / (std::string(name) + ".raw"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace rota::test
