#include "formats/python.hpp"
#include "test.hpp"

namespace rota::test {
namespace {

constexpr std::string_view kPreamble = R"(import io, os, random, struct, sys
os.chdir(sys.argv[1])
told = open(sys.argv[2], 'wb')
def tell(*parts):
    for part in parts:
        told.write(struct.pack('<Q', len(part)) + part)
)";

std::vector<std::string> read_parts(const std::filesystem::path& path) {
  std::vector<std::string> parts;
  std::ifstream file(path, std::ios::binary);
  for (std::uint64_t bytes = 0; file.read(reinterpret_cast<char*>(&bytes), sizeof(bytes));) {
    parts.emplace_back(bytes, '\0');
    file.read(parts.back().data(), static_cast<std::streamsize>(bytes));
  }
  return parts;
}

}  // namespace

std::vector<std::string> python(const TemporaryDirectory& directory, std::string_view script) {
  const TemporaryDirectory elsewhere;
  const auto program = elsewhere.write("script.py", fmt::format("{}{}", kPreamble, script));
  const auto told = elsewhere / "told";
  const auto command = fmt::format("{} {} {} {}", ROTA_TEST_PYTHON, program.string(),
                                   directory.path().string(), told.string());
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe): before any thread starts
  if (status != 0) throw std::runtime_error(fmt::format("{} failed with {}", command, status));
  return read_parts(told);
}

}  // namespace rota::test
