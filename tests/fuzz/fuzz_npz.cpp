// NPZ files. The checksums of data keep a fuzzer from no more than reading it.

#include <minizip/zip.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "format_target.hpp"

namespace {

std::string make_npz(int method) {
  std::string array =
      std::string("\x93NUMPY\1\0\x76\0", 10) + "{'descr': '<i2', 'fortran_order': False, 'shape': (20,), }";
  array.resize(128, ' ');
  array.append(40, 'n');
  const auto path = rota::test::directory() / "seed.npz";
  const zipFile zip = ::zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  for (const auto* name : {"x.npy", "y.npy"}) {
    const zip_fileinfo info{};
    ::zipOpenNewFileInZip64(zip, name, &info, nullptr, 0, nullptr, 0, nullptr, method, 6, 0);
    ::zipWriteInFileInZip(zip, array.data(), static_cast<unsigned>(array.size()));
    ::zipCloseFileInZip(zip);
  }
  ::zipClose(zip, nullptr);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> rota::test::seeds() { return {make_npz(0), make_npz(8)}; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = rota::test::write_file("a.npz", rota::test::as_bytes(data, size));
  for (const bool rows : {false, true}) {
    rota::test::try_format(
        [&] { return rota::open_npz(rota::Catalog(path, {.indexing_threads = 1}), {.rows = rows}); });
  }
  return 0;
}
