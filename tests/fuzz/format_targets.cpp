// What reads the files of datasets.

#include <archive.h>
#include <archive_entry.h>
#include <isa-l/crc.h>
#include <liblzf/lzf.h>
#include <lz4.h>
#include <minizip/zip.h>
#include <zlib.h>

#include "formats/hdf5/filters.hpp"
#include "fuzz/target.hpp"
#include "source/read_plan.hpp"

namespace rota::test::format_targets {

Numbers naive_lengths(std::string_view text) {
  Numbers lengths;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const bool is_crlf = end != std::string_view::npos && end > 0 && text[end - 1] == '\r';
    lengths.push_back(static_cast<std::int64_t>(std::min(end, text.size()) - (is_crlf ? 1 : 0)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lengths;
}

std::string gzip_of(std::string text) {
  z_stream stream{};
  ::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  return packed;
}

// Text, whose lines have the lengths that a naive look at it finds; or compressed text.
const bool kLines = add_file_target(
    "lines",
    [] {
      const std::string text = "one\n\r\n\nthree\r\n\rfour";
      return Seeds{text, std::string(3000, 'x') + "\n", zstd_of(text), gzip_of(text),
                   gzip_of(text) + gzip_of(text)};
    },
    [](Bytes input) {
      try_format([&] {
        auto source = open(catalog_of("a.txt", input), "lines");
        if (PlannedSource::plan_of(*source)->sharing() != Sharing::none) return source;
        std::vector<std::int64_t> lengths(static_cast<std::size_t>(source->size()));
        source->rows(all_ids(*source), 0, lengths);
        EXPECT_EQ(lengths, naive_lengths(to_text(input)));
        return source;
      });
    });

// The filters of an HDF5 chunk of 120 bytes. Input: how many there are, up to 3, and which, then what is
// stored.
const bool kChunk = add_target(
    "chunk",
    [] {
      const std::string plain(120, '7');
      Seeds seeds{raw('\1', '\2') + plain, raw('\1', '\3') + plain + raw(std::uint32_t{0}),
                  raw('\1', '\4') + zstd_of(plain)};
      std::string packed(300, '\0');
      uLongf bytes = packed.size();
      ::compress(reinterpret_cast<Bytef*>(packed.data()), &bytes,
                 reinterpret_cast<const Bytef*>(plain.data()), plain.size());
      seeds.push_back(raw('\2', '\2', '\1') + packed.substr(0, bytes));
      const auto lzf = ::lzf_compress(plain.data(), 120, packed.data(), 300);
      seeds.push_back(raw('\1', '\5') + packed.substr(0, lzf));
      const auto lz4 = ::LZ4_compress_default(plain.data(), packed.data(), 120, 300);
      const auto head = [](std::uint32_t stored) {
        return std::string(7, '\0') + 'x' + std::string(3, '\0') + 'x' + std::string(3, '\0') +
               static_cast<char>(stored);
      };
      seeds.push_back(raw('\1', '\6') + head(static_cast<std::uint32_t>(lz4)) +
                      packed.substr(0, static_cast<std::size_t>(lz4)));
      seeds.push_back(raw('\1', '\6') + head(120) + plain);
      return seeds;
    },
    [](Bytes input) {
      constexpr int kIds[] = {H5Z_FILTER_DEFLATE,
                              H5Z_FILTER_DEFLATE,
                              H5Z_FILTER_SHUFFLE,
                              H5Z_FILTER_FLETCHER32,
                              32015,
                              32000,
                              32004};
      Hdf5Dataset dataset;
      dataset.type.bytes = 4;
      const std::size_t count =
          input.empty() ? 0 : std::min<std::size_t>(static_cast<std::size_t>(input[0]) % 4, input.size() - 1);
      for (std::size_t i = 0; i < count; ++i)
        dataset.filters.push_back(kIds[static_cast<std::size_t>(input[i + 1]) % std::size(kIds)]);
      if (need_library(dataset.filters)) return;
      const std::vector<std::byte> stored(
          input.begin() + static_cast<std::ptrdiff_t>(std::min(count + 1, input.size())), input.end());
      std::vector<std::byte> chunk(120);
      Unfilter unfilter;
      const bool is_whole = unfilter.run(dataset, 0, stored, chunk);
      std::vector<std::byte> again(120);
      EXPECT_EQ(unfilter.run(dataset, 0, stored, again), is_whole);
      EXPECT_TRUE(!is_whole || again == chunk);
    });

constexpr std::uint16_t kIsPacked = 0x8000;

// MosaicML's shards. Input: bytes of the shard (uint16, its highest bit set where the file is a compressed
// one), the shard's file, then index.json.
const bool kMds = add_file_target(
    "mds",
    [] {
      std::string shard = raw(2U, 16U, 39U, 60U);  // samples, and where they are
      for (const std::uint32_t text : {4U, 2U}) {
        shard += raw(3U, text) + "\x04\x01v" + std::string(text, 's') + std::string(8, 'i');
      }
      const std::string packed = zstd_of(shard);
      const std::string index = fmt::format(
          R"({{"version": 2, "shards": [{{"column_names": ["a", "b", "c"], "column_encodings": )"
          R"(["ndarray:uint8", "str", "int"], "column_sizes": [null, null, 8], "compression": "zstd:1", )"
          R"("format": "mds", "version": 2, "raw_data": {{"basename": "a.mds", "bytes": {}}}, "samples": 2, )"
          R"("zip_data": {{"basename": "a.mds.zstd", "bytes": {}}}}}]}})",
          shard.size(), packed.size());
      return Seeds{raw(static_cast<std::uint16_t>(shard.size())) + shard + index,
                   raw(static_cast<std::uint16_t>(packed.size() | kIsPacked)) + packed + index};
    },
    [](Bytes input) {
      std::uint16_t head = 0;
      if (input.size() < sizeof(head)) return;
      std::memcpy(&head, input.data(), sizeof(head));
      input = input.subspan(sizeof(head));
      const bool is_packed = (head & kIsPacked) != 0;
      const Bytes shard = input.first(std::min<std::size_t>(head & (kIsPacked - 1U), input.size()));
      fs::remove(directory() / "a.mds");
      write_file(is_packed ? "a.mds.zstd" : "a.mds", shard);
      try_format([&] { return open(catalog_of("index.json", input.subspan(shard.size())), "mds"); });
    });

// Megatron-LM's indices. Input: the index; its data is always the same.
const bool kMegatron = add_file_target(
    "megatron",
    [] {
      const std::array<std::int32_t, 3> lengths{100, 7, 0};
      const std::array<std::int64_t, 3> places{0, 200, 214};
      const std::array<std::int64_t, 4> firsts{0, 2, 2, 3};
      const std::string bytes =
          std::string("MMIDIDX\0\0", 9) +
          raw(std::uint64_t{1}, std::uint8_t{8}, std::uint64_t{3}, std::uint64_t{4}, lengths, places, firsts);
      return Seeds{bytes, bytes + std::string(3, '\1')};
    },
    [](Bytes input) {
      static const fs::path data = directory().write("a.bin", std::string(300, 't'));
      for (const bool sequences : {false, true}) {
        try_format([&] {
          return open(catalog_of("a.idx", input), MegatronOptions{.sequence_is_sample = sequences});
        });
      }
    });

std::string make_npy(std::string_view type, std::string_view order, std::string_view shape,
                     std::size_t bytes) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", type, order, shape);
  header.resize(118, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + std::string(bytes, 'n');
}

const bool kNpy = add_file_target(
    "npy",
    [] {
      return Seeds{make_npy("<f4", "False", "(3, 2)", 24), make_npy("|u1", "True", "(2, 3, 4)", 24),
                   make_npy("<i8", "False", "()", 8), make_npy("<i2", "False", "(0, 5)", 0)};
    },
    [](Bytes input) {
      for (const bool is_sample : {true, false}) {
        try_format([&] { return open(catalog_of("a.npy", input), NpyOptions{.file_is_sample = is_sample}); });
      }
    });

std::string make_npz(int method) {
  const std::string array = make_npy("<i2", "False", "(20,)", 40);
  const auto path = directory() / "seed.npz";
  const zipFile zip = ::zipOpen64(path.c_str(), APPEND_STATUS_CREATE);
  for (const auto* name : {"x.npy", "y.npy"}) {
    const zip_fileinfo info{};
    ::zipOpenNewFileInZip64(zip, name, &info, nullptr, 0, nullptr, 0, nullptr, method, 6, 0);
    ::zipWriteInFileInZip(zip, array.data(), static_cast<unsigned>(array.size()));
    ::zipCloseFileInZip(zip);
  }
  ::zipClose(zip, nullptr);
  return read_file(path);
}

// The checksums of data keep a fuzzer from no more than reading it.
const bool kNpz = add_file_target(
    "npz",
    [] {
      return Seeds{make_npz(0), make_npz(8)};
    },
    [](Bytes input) {
      for (const bool rows : {false, true}) {
        try_format([&] { return open(catalog_of("a.npz", input), NpzOptions{.rows = rows}); });
      }
    });

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

// Plain or compressed.
const bool kTar = add_file_target(
    "tar",
    [] {
      return Seeds{make_tar(false), make_tar(true), zstd_of(make_tar(true)), make_tar(false).substr(0, 2048)};
    },
    [](Bytes input) {
      for (const bool allow : {false, true}) {
        try_format([&] {
          return open(catalog_of("a.tar", input), TarOptions{.keys = true, .allow_missing_end = allow});
        });
      }
    });

// Makes the checksums of lengths right, past which a fuzzer would not get.
std::string with_lengths_sealed(std::string bytes) {
  for (std::size_t at = 0; at + 12 <= bytes.size();) {
    auto* length_bytes = reinterpret_cast<unsigned char*>(bytes.data() + at);
    const std::uint32_t crc = ~::crc32_iscsi(length_bytes, 8, ~0U);
    const std::uint32_t masked = ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U;
    std::memcpy(bytes.data() + at + 8, &masked, sizeof(masked));
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    if (length > bytes.size() - at) break;
    at += 16 + length;
  }
  return bytes;
}

const bool kTfrecord = add_file_target(
    "tfrecord",
    [] {
      std::string bytes;
      for (const std::uint64_t length : {5U, 0U, 300U}) {
        bytes += raw(length) + std::string(4 + length + 4, 'r');
      }
      return Seeds{bytes};
    },
    [](Bytes input) {
      const std::string bytes = with_lengths_sealed(to_text(input));
      for (const bool verifies : {true, false}) {
        try_format([&] {
          return open(catalog_of("a.tfrecord", std::as_bytes(std::span(bytes))),
                      TfRecordOptions{.verify = verifies});
        });
      }
    });

// Windows over tokens. Input: type, length and stride, each as small or as wild as they come; then the
// tokens.
const bool kTokens = add_file_target(
    "tokens",
    [] {
      const auto seed = [](bool is_wide, std::int64_t length, std::int64_t stride, std::size_t bytes) {
        return raw(is_wide, length, stride) + std::string(bytes, 't');
      };
      return Seeds{seed(false, 10, 0, 100), seed(true, 3, 1, 40), seed(false, 1, 1, 7),
                   seed(true, std::int64_t{1} << 40, std::int64_t{1} << 40, 16)};
    },
    [](Bytes input) {
      TokensOptions options;
      constexpr std::size_t kHeadBytes = 1 + sizeof(options.length) + sizeof(options.stride);
      if (input.size() < kHeadBytes) return;
      options.dtype = (input[0] & std::byte{1}) != std::byte{0} ? DType::uint32 : DType::uint16;
      std::memcpy(&options.length, input.data() + 1, sizeof(options.length));
      std::memcpy(&options.stride, input.data() + 1 + sizeof(options.length), sizeof(options.stride));
      const auto path = write_file("a.bin", input.subspan(kHeadBytes));
      try_format([&] { return open(path, options); });
    });

}  // namespace rota::test::format_targets
