#pragma once

// The names of files by number, wherever they are kept, and what the files were like when they were listed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "catalog/location.hpp"
#include "catalog/name_pattern.hpp"
#include "catalog/name_table.hpp"
#include "mpi/node_buffer.hpp"

namespace rota::internal {

/// Files by number: all names in a table, and what is known of each file, or nothing at all; or names that
/// are computed. *Immutable.*
class Listing {
 public:
  /// Reads names. Of computed ones, it must not outlive the listing. *One thread.*
  class Reader {
   public:
    Reader(std::shared_ptr<NameReader> table, const NameSeries* series)
        : table_(std::move(table)), series_(series) {}
    /// Name i, which ends in a zero byte, until the next call. Fast where i follows the one before. Throws
    /// Error{corrupt}.
    const std::string& operator[](std::size_t i);

   private:
    std::shared_ptr<NameReader> table_;  // null: names are computed
    const NameSeries* series_;
    std::string name_;
  };

  Listing(NameTable names, NodeBuffer stats);
  /// These take no memory for each name, and nothing is known of the files.
  explicit Listing(NameSeries series) : series_(std::move(series)) {}

  [[nodiscard]] std::size_t size() const noexcept {
    return is_computed() ? static_cast<std::size_t>(series_.files) : names_.size();
  }
  [[nodiscard]] std::unique_ptr<Reader> read_names() const;
  /// Only where changes are detected by size. Any thread.
  [[nodiscard]] FileStat stat(std::size_t i) const;

  /// Whether names are computed, and in no table.
  [[nodiscard]] bool is_computed() const noexcept { return readers_ == nullptr; }
  /// Of one that is computed.
  [[nodiscard]] const NameSeries& series() const noexcept { return series_; }
  /// Of one that is not; else no names.
  [[nodiscard]] const NameTable& names() const noexcept { return names_; }
  [[nodiscard]] std::span<const std::byte> stats() const noexcept { return stats_.bytes; }
  /// The number of each name, of one that is not computed.
  [[nodiscard]] std::unordered_map<std::string, std::size_t> numbers() const;
  /// Whether tables list the same files, which are as they were.
  friend bool operator==(const Listing& a, const Listing& b) noexcept;

 private:
  class Readers;

  NameSeries series_;
  NameTable names_;
  NodeBuffer stats_;  // a FileStat each
  std::shared_ptr<Readers> readers_;
};

}  // namespace rota::internal
