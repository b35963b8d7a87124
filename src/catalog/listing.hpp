#pragma once

// The names of files by number, wherever they are kept, and what the files were like when they were listed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "catalog/name_table.hpp"
#include "storage/node_buffer.hpp"

namespace rota::internal {

/// A file when it was listed.
struct FileStat {
  std::int64_t bytes = 0;
  std::int64_t written = 0;  ///< when it was last written to, in nanoseconds since 1970
  friend bool operator==(const FileStat&, const FileStat&) = default;
};

/// Files by number. *Immutable.*
class Listing {
 public:
  /// Reads names. Of a listing that is no table, it must not outlive it. *One thread.*
  class Reader {
   public:
    Reader() = default;
    virtual ~Reader() = default;
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    /// Name i, which ends in a zero byte, until the next call. Fast where i follows the one before. Throws
    /// Error{corrupt}.
    virtual const std::string& operator[](std::size_t i) = 0;
  };

  Listing() = default;
  virtual ~Listing() = default;
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  [[nodiscard]] virtual std::unique_ptr<Reader> read_names() const = 0;
  /// Only where changes are detected by size. Any thread.
  [[nodiscard]] virtual FileStat stat(std::size_t i) const = 0;

  /// Whether names are computed, and in no table.
  [[nodiscard]] virtual bool is_computed() const noexcept { return false; }
};

/// All names in a table, and what is known of each file, or nothing at all.
class TableListing final : public Listing {
 public:
  TableListing(NameTable names, NodeBuffer stats);

  [[nodiscard]] std::size_t size() const noexcept override { return names_.size(); }
  [[nodiscard]] std::unique_ptr<Reader> read_names() const override;
  [[nodiscard]] FileStat stat(std::size_t i) const override;

  [[nodiscard]] const NameTable& names() const noexcept { return names_; }
  [[nodiscard]] std::span<const std::byte> stats() const noexcept { return stats_.bytes; }
  /// Whether they list the same files, which are as they were.
  friend bool operator==(const TableListing& a, const TableListing& b) noexcept;

 private:
  NameTable names_;
  class Readers;

  NodeBuffer stats_;  // a FileStat each
  std::shared_ptr<Readers> readers_;
};

}  // namespace rota::internal
