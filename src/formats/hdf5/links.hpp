#pragma once

// Links of HDF5 files, which are followed here: HDF5 would not tell which file the addresses are of.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "files/dataset_file.hpp"
#include "formats/hdf5/layout.hpp"
#include "formats/hdf5/library_reads.hpp"

namespace rota::internal {

/// An object, or what would be one, named by hard links alone.
struct Hdf5Object {
  const Hdf5Subject* subject;
  std::string name;
  std::string link = {};   ///< the file's name, as the external link says that leads here; empty: none does
  bool is_linked = false;  ///< an external link leads to itself, and not to a group that would hold it
};

/// Follows links from one file, and keeps those open that they lead into. One thread, under HDF5's lock.
class Hdf5Links {
 public:
  /// Without `may_leave`, external links are errors.
  Hdf5Links(const Hdf5Subject& from, Hdf5Reads& reads, bool may_leave)
      : from_(from), reads_(reads), may_leave_(may_leave) {}

  [[nodiscard]] const Hdf5Subject& from() const noexcept { return from_; }
  [[nodiscard]] bool may_leave() const noexcept { return may_leave_; }
  /// Where `name` leads. Valid as long as this lives. Throws Error{unsupported} for an external link that
  /// must not be followed, and for too many links; Error{not_found} naming link and file where that is
  /// missing.
  [[nodiscard]] Hdf5Object follow(const std::string& name);
  /// The names of all external links.
  [[nodiscard]] std::vector<std::string> external() const;
  /// Of datasets of any type, in any group, by name; and of external links to anything, if it may leave.
  [[nodiscard]] std::vector<std::string> datasets() const;

 private:
  struct Other;

  bool step(Hdf5Object& at, const std::string& what);
  void leave(Hdf5Object& at, const std::string& file, const std::string& what);

  const Hdf5Subject& from_;
  Hdf5Reads& reads_;
  bool may_leave_;
  std::map<std::string, std::shared_ptr<Other>> others_;  // by path
};

}  // namespace rota::internal
