// Tar files, plain or compressed.

#include <archive.h>
#include <archive_entry.h>
#include <zstd.h>

#include <memory>

#include "format_target.hpp"

namespace {

std::string make_tar(bool is_pax) {
  const std::unique_ptr<archive, int (*)(archive*)> tar(::archive_write_new(), ::archive_write_free);
  if (is_pax) {
    ::archive_write_set_format_pax(tar.get());
  } else {
    ::archive_write_set_format_gnutar(tar.get());
  }
  std::string bytes(1 << 16, '\0');
  std::size_t used = 0;
  ::archive_write_open_memory(tar.get(), bytes.data(), bytes.size(), &used);
  for (const std::string& name : {std::string("a.x"), std::string("a.y"), std::string(200, 'l') + "/b.x"}) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(::archive_entry_new(),
                                                                         ::archive_entry_free);
    ::archive_entry_set_pathname(entry.get(), name.c_str());
    ::archive_entry_set_size(entry.get(), 100);
    ::archive_entry_set_filetype(entry.get(), AE_IFREG);
    ::archive_entry_set_perm(entry.get(), 0644);
    ::archive_write_header(tar.get(), entry.get());
    ::archive_write_data(tar.get(), std::string(100, 'd').data(), 100);
  }
  ::archive_write_close(tar.get());
  return bytes.substr(0, used);
}

std::string zstd_of(const std::string& bytes) {
  std::string packed(ZSTD_compressBound(bytes.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1));
  return packed;
}

}  // namespace

std::vector<std::string> rota::test::seeds() {
  return {make_tar(false), make_tar(true), zstd_of(make_tar(true)), make_tar(false).substr(0, 2048)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto path = rota::test::write_file("a.tar", rota::test::as_bytes(data, size));
  for (const bool allow_missing_end : {false, true}) {
    rota::test::try_format([&] {
      return rota::open_tar(rota::Catalog(path, {.indexing_threads = 1}),
                            {.keys = true, .allow_missing_end = allow_missing_end});
    });
  }
  return 0;
}
