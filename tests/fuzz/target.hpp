#pragma once

// Fuzz targets: a parser each, inputs to begin with, and what must hold of any input. A target is a test over
// its seeds and simple mutants of them (fuzz_test.cpp), and a program of libFuzzer's (libfuzzer.cpp; preset
// `fuzz`).

#include <zstd.h>

#include "source/reading.hpp"

namespace rota::test {

using Bytes = std::span<const std::byte>;
using Seeds = std::vector<std::string>;

struct Target {
  Seeds (*seeds)();          ///< good ones, as the target's own code makes them
  void (*run)(Bytes input);  ///< expects what must hold
  int mutants;               ///< of each seed, in a test
};

/// All of them, by name.
inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

/// To be called for each, before main. Mistakes that were made on purpose showed by the 221st mutant.
inline bool add_target(const char* name, Seeds (*seeds)(), void (*run)(Bytes), int mutants = 1000) {
  return targets().emplace(name, Target{seeds, run, mutants}).second;
}
/// The same for one that writes files, which is slow. There, they showed by the 50th.
inline bool add_file_target(const char* name, Seeds (*seeds)(), void (*run)(Bytes)) {
  return add_target(name, seeds, run, 200);
}

inline std::string to_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The bytes of numbers, one after the other.
template <typename... T>
std::string raw(const T&... values) {
  return (std::string() + ... + to_text(std::as_bytes(std::span(&values, 1))));
}

inline std::string zstd_of(const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 1));
  return packed;
}

/// Whether `work` returns; else it throws an Error of one of these codes.
inline bool succeeds(std::initializer_list<ErrorCode> codes, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const Error& error) {
    EXPECT_THAT(codes, Contains(error.code())) << error.what();
    return false;
  }
}

/// A directory for the files of one run after the other.
inline const TemporaryDirectory& directory() {
  static const TemporaryDirectory only;
  return only;
}

inline fs::path write_file(std::string_view name, Bytes bytes) {
  fs::remove(directory() / name);  // quicker than to cut it
  return directory().write(name, to_text(bytes));
}

inline Catalog catalog_of(std::string_view name, Bytes bytes) {
  return Catalog(write_file(name, bytes), {.indexing_threads = 1});
}

/// Opens what `open` gives, which may refuse it and nothing worse, and reads samples at its beginning and
/// end.
inline void try_format(const std::function<std::shared_ptr<const Source>()>& open) {
  constexpr std::int64_t kMost = 20;
  try {
    const auto source = open();
    for (std::int64_t id = 0; id < source->size(); ++id) {
      if (id == kMost) id = std::max(id, source->size() - kMost);
      const Samples sample(*source, ids({id}));
      EXPECT_THAT(source->where({id}), Not(IsEmpty()));
    }
  } catch (const Error& error) {
    EXPECT_NE(error.code(), out_of_range) << error.what();
  }
}

}  // namespace rota::test
