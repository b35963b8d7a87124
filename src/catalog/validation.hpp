#pragma once

// Whether generated files are there, as far as a sample of them tells.

#include <cstdint>
#include <memory>

#include "catalog/crew.hpp"
#include "catalog/pattern_listing.hpp"
#include "catalog/presence.hpp"
#include "rota/permutation.hpp"

namespace rota {

/// How many of `files` files are to be asked for, so that with probability `confidence` one that is missing
/// is among them, where that part of all is missing. 0 <= confidence <= 1, 0 < missing_fraction < 1.
std::int64_t sample_size(std::int64_t files, double confidence, double missing_fraction) noexcept;

/// Files at random, none twice, and then the first and the last one, where they are not among them.
/// *Immutable.*
class FileSample {
 public:
  /// 1 <= files, 0 <= count <= files.
  FileSample(std::int64_t files, std::int64_t count, Key key) noexcept;

  [[nodiscard]] std::int64_t size() const noexcept { return count_ + ends_; }
  /// The file at place 0 <= i < size().
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept;

 private:
  Permutation permutation_;
  std::int64_t count_;
  bool has_first_;
  bool has_last_;
  std::int64_t ends_;
};

/// **Collective** over `crew`, whose ranks and threads share the work. Asks for the files of `sample`, in
/// directory `at`, `shown` in messages: empty, or ending in a slash. Throws on all ranks Error{not_found}
/// where some are missing, else Error{io} where some are forbidden or unreachable, naming the first three.
void validate_files(const Crew& crew, const NameSeries& series, const FileSample& sample, int at,
                    const std::string& shown);

}  // namespace rota
