#pragma once

// Where the links of HDF5 files lead, inside of a file and from one into another.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/hdf5/layout.hpp"

namespace rota::internal {

/// An object, or what would be one, named by hard links alone.
struct Hdf5Object {
  const Hdf5Subject* subject;
  std::string name;
  std::string link = {};   ///< the file's name, as the external link says that leads here; empty: none does
  bool is_linked = false;  ///< an external link leads to itself, and not to a group that would hold it
};

/// Follows links from one file, and keeps those open that they lead into. HDF5 is never left to follow one:
/// it would not tell which file the addresses are of. One thread, under HDF5's lock.
class Hdf5Links {
 public:
  /// Without `may_leave`, external links are errors.
  Hdf5Links(const Hdf5Subject& from, bool may_leave);
  ~Hdf5Links();
  Hdf5Links(const Hdf5Links&) = delete;
  Hdf5Links& operator=(const Hdf5Links&) = delete;

  [[nodiscard]] const Hdf5Subject& from() const noexcept { return from_; }
  /// Where `name` leads. Valid as long as this lives. Throws Error{unsupported} for an external link that
  /// must not be followed, and for too many links; Error{not_found} naming link and file where that is
  /// missing.
  [[nodiscard]] Hdf5Object follow(const std::string& name);
  /// The names of all external links; none where they must not be followed.
  [[nodiscard]] std::vector<std::string> external() const;

 private:
  struct Other;
  bool step(Hdf5Object& at, const std::string& what);
  void leave(Hdf5Object& at, const std::string& file, const std::string& what);

  const Hdf5Subject& from_;
  bool may_leave_;
  std::map<std::string, std::unique_ptr<Other>> others_;  // by path
};

}  // namespace rota::internal
