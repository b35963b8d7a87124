#include "formats/hdf5/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "files/descriptor.hpp"
#include "formats/hdf5/library_reads.hpp"
#include "formats/hdf5/superblock.hpp"
#include "formats/hdf5/type.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kOffsetsSuffix = "_offsets";
constexpr std::size_t kNamesInMessage = 20;
constexpr int kMostLinks = 16;  // as HDF5 has it

/// An object, or what would be one, named by hard links alone.
struct Hdf5Object {
  const Hdf5Subject* subject;
  std::string name;
  std::string link = {};   ///< the file's name, as the external link says that leads here; empty: none does
  bool is_linked = false;  ///< an external link leads to itself, and not to a group that would hold it
};

// From the root, without what means nothing.
std::string clean(std::string_view name) {
  std::string result;
  while (!name.empty()) {
    const std::string_view part = name.substr(0, name.find('/'));
    name.remove_prefix(std::min(part.size() + 1, name.size()));
    if (!part.empty() && part != ".") result.append("/").append(part);
  }
  return result.empty() ? "/" : result;
}

// What a link says.
std::vector<char> value_of(hid_t file, const std::string& name, std::size_t bytes, const std::string& what) {
  std::vector<char> value(bytes + 1);  // ends with a zero, whatever the file has
  hdf5::check(H5Lget_val(file, name.c_str(), value.data(), bytes, H5P_DEFAULT), what);
  return value;
}

// The names of what a callback of C has met; nothing may be thrown through that.
herr_t add_name(const char* name, void* names) noexcept {
  try {
    static_cast<std::vector<std::string>*>(names)->push_back(fmt::format("/{}", name));
    return 0;
  } catch (...) {
    return -1;
  }
}
template <typename Info>
herr_t add_dataset(hid_t /*root*/, const char* name, const Info* info, void* names) noexcept {
  return info->type == H5O_TYPE_DATASET ? add_name(name, names) : 0;
}
template <typename Info>
herr_t add_external(hid_t /*root*/, const char* name, const Info* info, void* names) noexcept {
  return info->type == H5L_TYPE_EXTERNAL ? add_name(name, names) : 0;
}

/// Follows links from one file, and keeps those open that they lead into. HDF5 is never left to follow one:
/// it would not tell which file the addresses are of. One thread, under HDF5's lock.
class Hdf5Links {
 public:
  /// Without `may_leave`, external links are errors.
  Hdf5Links(const Hdf5Subject& from, Hdf5Reads& reads, bool may_leave)
      : from_(from), reads_(reads), may_leave_(may_leave) {}

  [[nodiscard]] const Hdf5Subject& from() const noexcept { return from_; }
  /// Where `name` leads. Valid as long as this lives. Throws Error{unsupported} for an external link that
  /// must not be followed, and for too many links; Error{not_found} naming link and file where that is
  /// missing.
  [[nodiscard]] Hdf5Object follow(const std::string& name) {
    const std::string what = from_.what(name);
    Hdf5Object at{.subject = &from_, .name = clean(name)};
    for (int links = 0; links <= kMostLinks; ++links) {
      if (!step(at, what)) return at;
    }
    throw Error(ErrorCode::unsupported,
                fmt::format("{} leads through more than {} links; link to the data", what, kMostLinks));
  }

  [[nodiscard]] bool may_leave() const noexcept { return may_leave_; }
  /// The names of all external links.
  [[nodiscard]] std::vector<std::string> external() const {
    std::vector<std::string> names;
    hdf5::check(H5Lvisit(from_.file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add_external, &names),
                fmt::format("list the links of {}", from_.path));
    return names;
  }

 private:
  // Another file.
  struct Other {
    Other(DatasetFile opened, Hdf5Reads& reads)
        : bytes(std::move(opened)),
          file(bytes.path(), reads.of(bytes)),
          subject{file, bytes.path(), bytes.bytes()} {}

    DatasetFile bytes;
    hdf5::AddressFile file;
    Hdf5Subject subject;
  };

  // Puts what the first link in the name leads to in its place; false where there is none.
  bool step(Hdf5Object& at, const std::string& what) {
    const hid_t file = at.subject->file.get();
    for (std::size_t end = 0; end != std::string::npos;) {
      end = at.name.find('/', end + 1);
      const std::string part = at.name.substr(0, end);
      const std::string rest = end == std::string::npos ? "" : at.name.substr(end);
      H5L_info_t info{};
      const herr_t status = H5Lget_info(file, part.c_str(), &info, H5P_DEFAULT);
      H5Eclear2(H5E_DEFAULT);
      if (status < 0) return false;
      if (info.type == H5L_TYPE_SOFT) {
        const std::string target = value_of(file, part, info.u.val_size, what).data();
        const std::string group = target.starts_with('/') ? "" : part.substr(0, part.rfind('/') + 1);
        at.name = clean(fmt::format("{}{}{}", group, target, rest));
        return true;
      }
      if (info.type == H5L_TYPE_EXTERNAL) {
        const std::vector<char> value = value_of(file, part, info.u.val_size, what);
        const char* name = nullptr;
        const char* object = nullptr;
        hdf5::check(H5Lunpack_elink_val(value.data(), info.u.val_size, nullptr, &name, &object), what);
        at.name = clean(object + rest);
        at.is_linked = at.is_linked || rest.empty();
        leave(at, name, what);
        return true;
      }
    }
    return false;
  }

  // `at.name` is already that in the other file.
  void leave(Hdf5Object& at, const std::string& file, const std::string& what) {
    if (!may_leave_) {
      throw Error(
          ErrorCode::unsupported,
          fmt::format("{} leads by an external link into another file, {}; open that file, copy the data, or "
                      "follow such links with Hdf5Options::allow_external_links",
                      what, file));
    }
    if (at.subject->is_stored) {
      throw Error(
          ErrorCode::unsupported,
          fmt::format("{} leads by an external link into another file, {}; from a storage they are not "
                      "followed: copy the data",
                      what, file));
    }
    const std::filesystem::path path = std::filesystem::path(at.subject->path).parent_path() / file;
    std::error_code error;
    const bool is_file = std::filesystem::is_regular_file(path, error);
    Descriptor opened = is_file ? open_for_reading(AT_FDCWD, path.c_str()) : Descriptor();
    if (!opened.is_open()) {
      throw Error(
          ErrorCode::not_found,
          fmt::format("{} leads by an external link in {} to \"{}\" in {}, which is no file that can be "
                      "read; restore it, or write the link anew",
                      what, at.subject->path, at.name, path.native()));
    }
    std::unique_ptr<Other>& other = others_[path.native()];
    if (other == nullptr) {
      other = std::make_unique<Other>(DatasetFile(path.native(), 0, std::move(opened)), reads_);
      require_finished(other->bytes, reads_.of(other->bytes));
    }
    at.subject = &other->subject;
    at.link = file;
  }

  const Hdf5Subject& from_;
  Hdf5Reads& reads_;
  bool may_leave_;
  std::map<std::string, std::unique_ptr<Other>> others_;  // by path
};

// Of datasets of any type, in any group, by name; and of external links to anything.
std::vector<std::string> dataset_names(const Hdf5Links& links) {
  const Hdf5Subject& subject = links.from();
  std::vector<std::string> names;
  if (links.may_leave()) names = links.external();
  hdf5::check(
      H5Ovisit2(subject.file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add_dataset, &names, H5O_INFO_BASIC),
      fmt::format("list the datasets of {}", subject.path));
  std::sort(names.begin(), names.end());
  return names;
}

std::string listing(const std::vector<std::string>& names) {
  if (names.empty()) return "it has none";
  const auto shown = static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesInMessage));
  return fmt::format(
      "it has \"{}\"{}", fmt::join(names.begin(), names.begin() + shown, "\", \""),
      names.size() > kNamesInMessage ? fmt::format(" and {} more", names.size() - kNamesInMessage) : "");
}

bool is_dataset(Hdf5Links& links, const std::string& name) {
  const Hdf5Object at = links.follow(name);
  const hid_t object = H5Oopen(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT);
  const bool is_there =
      object >= 0 || H5Oexists_by_name(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  if (object < 0 && at.is_linked) {
    throw Error(
        ErrorCode::not_found,
        fmt::format("{} leads by an external link to \"{}\" in {}, which has no such object; write the "
                    "link anew",
                    links.from().what(name), at.name, at.subject->path));
  }
  if (object < 0 && is_there) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} is there, and HDF5 {}.{} cannot open it: a newer HDF5 wrote it, or it is damaged; "
                    "write the file anew in an older format (h5py: libver=(\"earliest\", \"v110\"))",
                    links.from().what(name), H5_VERS_MAJOR, H5_VERS_MINOR));
  }
  if (object < 0) return false;
  const hdf5::Object owner(object, name);
  return H5Iget_type(object) == H5I_DATASET;
}

hdf5::Dataset open_dataset(const Hdf5Object& at) {
  return {H5Dopen2(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT), at.subject->what(at.name)};
}

/// What a dataset holds, as far as is asked about those that are not named.
struct Holds {
  int rank = 0;
  H5T_class_t kind = H5T_NO_CLASS;
  bool is_known = false;     ///< can be read
  bool has_numbers = false;  ///< and nothing else, or should have, and cannot be read
  std::string type = {};     ///< in words
};
Holds ask_what(Hdf5Links& links, const std::string& name) {
  if (!is_dataset(links, name)) return {};
  const std::string what = links.from().what(name);
  const hdf5::Dataset dataset = open_dataset(links.follow(name));
  const hdf5::Datatype type(H5Dget_type(dataset.get()), what);
  const hdf5::Dataspace space(H5Dget_space(dataset.get()), what);
  const auto stored = stored_type(type.get(), what);
  Holds found{.rank = H5Sget_simple_extent_ndims(space.get()),
              .kind = H5Tget_class(type.get()),
              .is_known = stored.has_value(),
              .type = describe(type.get())};
  found.has_numbers = stored ? stored->parts[0].name.empty() && !stored->parts[0].is_text()
                             : found.kind == H5T_INTEGER || found.kind == H5T_FLOAT;
  return found;
}

std::string offsets_of(const std::string& name) { return name + std::string(kOffsetsSuffix); }

bool is_ragged(Hdf5Links& links, const std::string& name) {
  const Holds offsets = ask_what(links, offsets_of(name));
  return offsets.rank == 1 && offsets.kind == H5T_INTEGER;
}

// Those of numbers, or else all that can be read: batches of text are of little use to a loop, and compounds
// often describe the others.
void choose_datasets(Hdf5Links& links, Hdf5Choice& choice) {
  const std::vector<std::string> all = dataset_names(links);
  std::vector<std::string> others;
  for (const std::string& name : all) {
    const Holds found = ask_what(links, name);
    if (found.rank >= 1 && found.has_numbers) {
      choice.datasets.push_back(name);
    } else if (found.rank >= 1) {
      choice.left_out.push_back(fmt::format("\"{}\" ({})", name, found.type));
      if (found.is_known) others.push_back(name);
    }
  }
  for (const std::string& name : links.may_leave() ? std::vector<std::string>() : links.external())
    choice.left_out.push_back(fmt::format("\"{}\" (an external link)", name));
  for (const std::string& name : others) {
    if (is_ragged(links, name)) std::erase(choice.datasets, offsets_of(name));
  }
  if (!choice.datasets.empty()) return;
  if (others.empty()) {
    throw Error(
        ErrorCode::not_found,
        fmt::format("open {}: no dataset of numbers or text with rows; {}", links.from().path,
                    !choice.left_out.empty() ? fmt::format("it has {}", fmt::join(choice.left_out, ", "))
                    : all.empty()            ? "it has no dataset at all"
                                             : listing(all)));
  }
  choice = {.datasets = std::move(others)};
}

void check_present(Hdf5Links& links, const std::vector<std::string>& datasets) {
  for (const std::string& name : datasets) {
    if (is_dataset(links, name)) continue;
    const Hdf5Object at = links.follow(name);
    const std::string place =
        at.link.empty() ? "" : fmt::format(", by an external link \"{}\" in {}", at.name, at.subject->path);
    throw Error(ErrorCode::not_found, fmt::format("open {}: no dataset \"{}\"{}; {}", links.from().path, name,
                                                  place, listing(dataset_names(links))));
  }
}

// The offsets of a ragged field belong to it, and are no field themselves.
std::vector<std::string> without_offsets(Hdf5Links& links, const std::vector<std::string>& datasets) {
  std::vector<std::string> absorbed;
  for (const std::string& name : datasets) {
    if (is_ragged(links, name)) absorbed.push_back(offsets_of(name));
  }
  std::vector<std::string> names;
  for (const std::string& name : datasets) {
    if (std::find(absorbed.begin(), absorbed.end(), name) == absorbed.end()) names.push_back(name);
  }
  return names;
}

void check_offsets(const std::string& what, const std::vector<std::int64_t>& offsets, std::int64_t rows) {
  const auto fail = [&](const std::string& reason) {
    throw Error(ErrorCode::corrupt,
                fmt::format("{} {}; write it again: it must rise from 0 to the {} rows of the field", what,
                            reason, rows));
  };
  if (offsets.empty()) fail("is empty");
  if (offsets.front() != 0) fail(fmt::format("begins with {}", offsets.front()));
  const auto fall = std::adjacent_find(offsets.begin(), offsets.end(), std::greater<>());
  if (fall != offsets.end())
    fail(fmt::format("falls from {} to {} at {}", *fall, fall[1], fall - offsets.begin()));
  if (offsets.back() != rows) fail(fmt::format("ends with {}", offsets.back()));
}

std::vector<std::int64_t> read_offsets(const Hdf5Object& at, std::int64_t rows) {
  const std::string what = at.subject->what(at.name);
  const hdf5::Dataset dataset = open_dataset(at);
  const hdf5::Dataspace space(H5Dget_space(dataset.get()), what);
  const hssize_t count = hdf5::check(H5Sget_simple_extent_npoints(space.get()), what);
  // Offsets that were stored take at least a thousandth of their size in memory; others are all one value.
  if (static_cast<std::uint64_t>(count) / 256 > at.subject->bytes + 4096) {
    throw Error(ErrorCode::corrupt,
                fmt::format("{} claims {} numbers, more than the file can hold", what, count));
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  if (count > 0) {
    hdf5::check(H5Dread(dataset.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets.data()),
                what);
  }
  check_offsets(what, offsets, rows);
  return offsets;
}

Hdf5Field ask_field(Hdf5Links& links, const std::string& name) {
  Hdf5Field result;
  const Hdf5Object at = links.follow(name);
  result.values = ask_dataset(*at.subject, at.name);
  if (!at.link.empty()) {
    result.target = {
        .link = at.link, .path = at.subject->path, .bytes = static_cast<std::int64_t>(at.subject->bytes)};
  }
  const bool ragged = is_ragged(links, name);
  result.field = {name.substr(1), result.values.dtype, result.values.row_shape(), ragged};
  if (ragged) result.offsets = read_offsets(links.follow(offsets_of(name)), result.values.rows());
  return result;
}

std::int64_t samples_of(const Hdf5Field& field) {
  return field.field.ragged ? static_cast<std::int64_t>(field.offsets.size()) - 1 : field.values.rows();
}

void check_extents(const Hdf5Subject& subject, const Hdf5File& file) {
  std::vector<std::string> held;
  bool are_equal = true;
  for (const Hdf5Field& field : file.fields) {
    are_equal = are_equal && samples_of(field) == file.samples;
    held.push_back(fmt::format("\"/{}\" holds {}", field.field.name, samples_of(field)));
  }
  if (are_equal) return;
  if (held.size() > kNamesInMessage) held.resize(kNamesInMessage);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("open {}: fields need the same number of samples, and {}: name those to read with "
                          "Hdf5Options::datasets",
                          subject.path, fmt::join(held, ", ")));
}

Hdf5File ask_readable(const DatasetFile& file, Hdf5Reads& reads, Hdf5Choice& choice, bool may_leave) {
  require_finished(file, reads.of(file));
  hdf5::AddressFile address_file(file.path(), reads.of(file));
  const Hdf5Subject subject{address_file, file.path(), file.bytes(), file.storage() != nullptr};
  Hdf5Links links(subject, reads, may_leave);
  if (choice.datasets.empty()) choose_datasets(links, choice);
  check_present(links, choice.datasets);
  Hdf5File found;
  for (const std::string& name : without_offsets(links, choice.datasets)) {
    found.fields.push_back(ask_field(links, name));
  }
  found.samples = samples_of(found.fields[0]);
  check_extents(subject, found);
  return found;
}

}  // namespace

// What HDF5 itself cannot make sense of in a file that can be read is damage.
Hdf5File ask_file(const DatasetFile& file, Hdf5Choice& choice, bool may_leave) {
  Hdf5Reads reads;
  for (;;) {
    if (reads.is_missing()) reads.fetch(file);
    Hdf5Choice made = choice;
    try {
      const auto guard = hdf5::lock();
      Hdf5File found = ask_readable(file, reads, made, may_leave);
      reads.rethrow();  // HDF5 may have taken a read that failed for something that is not there
      if (reads.is_missing()) continue;
      choice = std::move(made);
      return found;
    } catch (const Error& error) {
      if (reads.is_missing()) continue;
      reads.rethrow();
      if (error.code() != ErrorCode::io) throw;
      throw Error(ErrorCode::corrupt,
                  fmt::format("{}; it is truncated, damaged or still being written: fetch or write it again",
                              error.what()));
    }
  }
}

}  // namespace rota::internal
