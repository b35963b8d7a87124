#include "formats/hdf5/file.hpp"

#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

#include "core/failure.hpp"
#include "core/message.hpp"
#include "formats/formats.hpp"

namespace rota::internal {

std::optional<std::uint64_t> find_hdf5_signature(const hdf5::FileBytes& bytes) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, kSignature.size()> found{};
  for (std::uint64_t offset = 0; offset + found.size() <= bytes.size;
       offset = offset == 0 ? 512 : offset * 2) {
    if (!bytes.read(offset, std::as_writable_bytes(std::span(found)))) return std::nullopt;
    if (std::string_view(found.data(), found.size()) == kSignature) return offset;
  }
  return std::nullopt;
}

bool require_finished(const DatasetFile& file, const hdf5::FileBytes& bytes, bool may_grow) {
  const auto superblock = find_hdf5_signature(bytes);
  if (!superblock) {
    std::array<char, kForeignHead> head{};
    if (bytes.size >= head.size() && bytes.read(0, std::as_writable_bytes(std::span(head))))
      refuse_foreign(file.path(), {head.data(), head.size()});
    throw failure(ErrorCode::corrupt,
                  "open {}: it is not an HDF5 file (no signature); check the path, or open it as \"files\"",
                  file.path());
  }
  std::array<std::uint8_t, 12> head{};
  if (bytes.size - *superblock >= head.size())
    (void)bytes.read(*superblock, std::as_writable_bytes(std::span(head)));
  constexpr unsigned kOthersMayRead = 0x04U;
  constexpr unsigned kOpenForWriting = 0x01U | kOthersMayRead;
  const bool is_marked = head[8] >= 2 && (head[11] & kOpenForWriting) != 0;
  const bool is_shared = is_marked && (head[11] & kOthersMayRead) != 0;
  const bool is_local = file.descriptor() >= 0;
  const bool is_locked =
      is_local && ::flock(file.descriptor(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (is_local && !is_locked) ::flock(file.descriptor(), LOCK_UN);
  if (!is_locked && (!is_marked || (may_grow && is_shared))) return is_shared;
  throw failure(ErrorCode::busy, "open {}: {}", file.path(),
                is_locked ? "a writer has locked it; close it first"
                : is_shared
                    ? "a writer has it open and lets others read (SWMR), or ended without closing "
                      "it; the option swmr reads the rows that are there"
                    : "it is open for writing, or its writer ended without closing it; close it first. Where "
                      "nobody writes it any more, look at what it has, and clear the mark (h5clear -s)");
}

bool is_dataset(Hdf5Links& links, const std::string& name) {
  const Hdf5Object at = links.follow(name);
  const hid_t object = H5Oopen(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT);
  const bool is_there =
      object >= 0 || H5Oexists_by_name(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  if (object < 0 && is_there) {
    throw failure(ErrorCode::unsupported,
                  "{} is there, and HDF5 {}.{} cannot open it: a newer HDF5 wrote it, or it is damaged; "
                  "write the file anew in an older format (h5py: libver=(\"earliest\", \"v110\"))",
                  at.subject->what(at.name), H5_VERS_MAJOR, H5_VERS_MINOR);
  }
  if (object < 0 && at.is_linked) {
    throw failure(
        ErrorCode::not_found,
        "{} leads by an external link to \"{}\" in {}, which has no such object; write the link anew",
        links.from().what(name), at.name, at.subject->path);
  }
  if (object < 0) return false;
  const hdf5::Object owner(object, name);
  return H5Iget_type(object) == H5I_DATASET;
}

namespace {

constexpr std::size_t kNamesInMessage = 20;

std::string listing(const std::vector<std::string>& names) {
  if (names.empty()) return "it has none";
  const auto shown = static_cast<std::ptrdiff_t>(std::min(names.size(), kNamesInMessage));
  return fmt::format(
      "it has \"{}\"{}", fmt::join(names.begin(), names.begin() + shown, "\", \""),
      names.size() > kNamesInMessage ? fmt::format(" and {} more", names.size() - kNamesInMessage) : "");
}

hdf5::Dataset open_dataset(const Hdf5Object& at) {
  return {H5Dopen2(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT), at.subject->what(at.name)};
}

/// What a dataset holds, as far as is asked about those that are not named.
struct Holds {
  int rank = 0;
  H5T_class_t kind = H5T_NO_CLASS;
  bool is_known = false;     ///< can be read
  bool is_scale = false;     ///< of a dimension of others
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
              .is_scale = is_dimension_scale(dataset),
              .type = describe(type.get())};
  found.has_numbers = stored ? stored->parts[0].name.empty() && !stored->parts[0].is_text()
                             : found.kind == H5T_INTEGER || found.kind == H5T_FLOAT;
  return found;
}

std::vector<std::int64_t> read_offsets(const Hdf5Object& at, std::int64_t rows);

bool is_ragged(Hdf5Links& links, const Hdf5Choice& choice, const std::string& name) {
  const std::string of = choice.offsets_of(name);
  if (of == name) return false;
  const Holds offsets = ask_what(links, of);
  if (offsets.rank != 1 || offsets.kind != H5T_INTEGER) return false;
  if (!choice.are_named || std::ranges::count(choice.datasets, of) == 0) return true;
  const Hdf5Object at = links.follow(name);  // who names both may mean two fields
  try {
    (void)read_offsets(links.follow(of), ask_dataset(*at.subject, at.name, true).rows());
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt) throw;
    return false;
  }
}

// PyTables keeps the indices of a table "x" in a group "_i_x" beside it (User's Guide, "PyTables file
// format").
bool is_of_index(const std::vector<std::string>& datasets, const std::string& name) {
  constexpr std::string_view kIndex = "/_i_";
  const std::size_t at = name.find(kIndex);
  if (at == std::string::npos) return false;
  const std::size_t table = at + kIndex.size();
  const std::string of = name.substr(0, at + 1) + name.substr(table, name.find('/', table) - table);
  return std::ranges::find(datasets, of) != datasets.end();
}

// Those of numbers, or else all that can be read: batches of text are of little use to a loop, and compounds
// often describe the others.
void choose_datasets(Hdf5Links& links, Hdf5Choice& choice) {
  std::vector<std::string> all = choice.groups.empty() ? links.datasets() : links.datasets_by_all_names();
  std::vector<std::string> others;
  std::erase_if(all, [names = all](const std::string& name) { return is_of_index(names, name); });
  if (const auto groups = groups_of(all, choice); !groups.empty()) {
    for (const std::string& name : all) {
      if (!name.starts_with(groups[0] + "/")) continue;
      const Holds found = ask_what(links, name);
      if (found.has_numbers) choice.datasets.push_back(name.substr(groups[0].size()));
      if (!found.has_numbers && found.is_known) others.push_back(name.substr(groups[0].size()));
    }
    if (choice.datasets.empty() && !choice.groups.empty()) choice.datasets = others;
    choice.are_in_groups = !choice.datasets.empty();
    if (choice.are_in_groups) return;
    others.clear();
  }
  if (!choice.groups.empty()) return;
  for (const std::string& name : all) {
    const Holds found = ask_what(links, name);
    if (found.is_scale) {
      choice.left_out.push_back(fmt::format("\"{}\" (the scale of a dimension)", name));
      others.push_back(name);
    } else if (found.rank >= 1 && found.has_numbers) {
      choice.datasets.push_back(name);
    } else if (found.kind != H5T_NO_CLASS) {
      choice.left_out.push_back(fmt::format("\"{}\" ({})", name, found.rank == 0 ? "a scalar" : found.type));
      if (found.is_known && found.rank >= 1) others.push_back(name);
    }
  }
  for (const std::string& name : links.from().may_leave ? std::vector<std::string>() : links.external())
    choice.left_out.push_back(fmt::format("\"{}\" (an external link)", name));
  for (const std::string& name : others) {
    if (is_ragged(links, choice, name)) std::erase(choice.datasets, choice.offsets_of(name));
  }
  if (!choice.datasets.empty()) return;
  if (others.empty()) {
    throw failure(ErrorCode::not_found, "open {}: no dataset of numbers or text with rows; {}",
                  links.from().path,
                  !choice.left_out.empty() ? fmt::format("it has {}", fmt::join(choice.left_out, ", "))
                  : all.empty()            ? "it has no dataset at all"
                                           : listing(all));
  }
  choice.datasets = std::move(others);
  choice.left_out.clear();
}

void check_present(Hdf5Links& links, const std::vector<std::string>& datasets) {
  for (const std::string& name : datasets) {
    if (is_dataset(links, name)) continue;
    const Hdf5Object at = links.follow(name);
    const std::string place =
        at.link.empty() ? "" : fmt::format(", by an external link \"{}\" in {}", at.name, at.subject->path);
    throw failure(ErrorCode::not_found, "open {}: no dataset \"{}\"{}; {}", links.from().path, name, place,
                  listing(links.datasets()));
  }
}

// The offsets of a ragged field belong to it, and are no field themselves.
std::vector<std::string> without_offsets(Hdf5Links& links, const Hdf5Choice& choice) {
  std::vector<std::string> absorbed;
  for (const std::string& name : choice.datasets) {
    if (is_ragged(links, choice, name)) absorbed.push_back(choice.offsets_of(name));
  }
  if (absorbed.empty() && !choice.offsets.empty())
    throw failure(
        ErrorCode::not_found,
        "open {}: no field has integers \"{}\" of one dimension in its group (the option offsets); {}",
        links.from().path, choice.offsets, listing(links.datasets()));
  std::vector<std::string> names = choice.datasets;
  std::erase_if(names, [&](const std::string& name) { return std::ranges::count(absorbed, name) > 0; });
  return names;
}

void check_offsets(const std::string& what, const std::vector<std::int64_t>& offsets, std::int64_t rows) {
  const auto fail = [&](const std::string& reason) {
    throw failure(ErrorCode::corrupt,
                  "{} {}, and offsets rise from 0 to the {} rows of the field: write it again; or name both "
                  "(the option datasets), if it is a field of its own",
                  what, reason, rows);
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
    throw failure(ErrorCode::corrupt, "{} claims {} numbers, more than the file can hold", what, count);
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  if (count > 0) {
    hdf5::check(H5Dread(dataset.get(), H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, offsets.data()),
                what);
  }
  check_offsets(what, offsets, rows);
  return offsets;
}

Hdf5Field ask_field(Hdf5Links& links, const Hdf5Choice& choice, const std::string& name) {
  Hdf5Field result;
  const Hdf5Object at = links.follow(name);
  result.values = ask_dataset(*at.subject, at.name);
  if (!at.link.empty()) {
    result.target = {
        .link = at.link, .path = at.subject->path, .bytes = static_cast<std::int64_t>(at.subject->bytes)};
  }
  const bool ragged = is_ragged(links, choice, name);
  if (ragged && is_by_columns(*at.subject, at.name)) {
    throw failure(
        ErrorCode::unsupported,
        "{} is of a matrix that is stored by columns (csc_matrix), which would come for its rows; write it "
        "by rows (AnnData: adata.X = adata.X.tocsr())",
        at.subject->what(at.name));
  }
  result.field = {name.substr(1), result.values.dtype, result.values.row_shape(), ragged};
  if (result.values.type.is_numbers()) ask_scaling(open_dataset(at), result);
  if (ragged) result.offsets = read_offsets(links.follow(choice.offsets_of(name)), result.values.rows());
  return result;
}

std::int64_t samples_of(const Hdf5Field& field) {
  if (!field.samples.empty()) return std::ssize(field.samples);
  return field.field.ragged ? static_cast<std::int64_t>(field.offsets.size()) - 1 : field.values.rows();
}

// Some of what was left out, and how many more.
std::string shown(const std::vector<std::string>& left_out) {
  constexpr std::size_t kMostShown = 5;
  const auto some = std::span(left_out).first(std::min(left_out.size(), kMostShown));
  return fmt::format(
      "left out {}{}", fmt::join(some, ", "),
      left_out.size() > kMostShown ? fmt::format(" and {} more", left_out.size() - kMostShown) : "");
}

void check_extents(const Hdf5Subject& subject, const Hdf5File& file, const Hdf5Choice& choice) {
  std::vector<std::string> held;
  bool are_equal = true;
  for (const Hdf5Field& field : file.fields) {
    are_equal = are_equal && samples_of(field) == file.samples;
    held.push_back(fmt::format("\"/{}\" holds {}", field.field.name, samples_of(field)));
  }
  if (are_equal) return;
  const auto in_group = [](const Hdf5Field& field) {
    return field.field.name.find('/') != std::string::npos;
  };
  const bool may_be_groups = std::ranges::count_if(file.fields, in_group) > 1;
  if (held.size() > kNamesInMessage) held.resize(kNamesInMessage);
  throw failure(
      ErrorCode::invalid_argument,
      "open {}: fields need the same number of samples, and {}: name those to read with the option "
      "datasets{}{}",
      subject.path, fmt::join(held, ", "),
      may_be_groups ? ", or groups that are a sample each with the option groups (\"/*\", say)" : "",
      choice.left_out.empty() ? "" : "; " + shown(choice.left_out));
}

// Of one that somebody writes.
std::uint64_t bytes_now(const DatasetFile& file) {
  struct stat status {};
  return ::fstat(file.descriptor(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : file.bytes();
}

Hdf5File ask_readable(const DatasetFile& file, Hdf5Reads& reads, Hdf5Choice& choice, bool may_leave) {
  hdf5::FileBytes bytes = reads.of(file);
  const bool is_growing = require_finished(file, bytes, choice.swmr);
  if (is_growing) bytes.size = bytes_now(file);
  hdf5::AddressFile address_file(file.path(), bytes, is_growing);
  const Hdf5Subject subject{address_file, file.path(), bytes.size, file.storage() != nullptr, may_leave};
  Hdf5Links links(subject, reads);
  if (choice.datasets.empty()) choose_datasets(links, choice);
  Hdf5File found;
  if (choice.are_in_groups || !choice.groups.empty()) {
    const auto all = choice.groups.empty() ? links.datasets() : links.datasets_by_all_names();
    const auto groups = groups_of(all, choice);
    if (groups.empty() || choice.datasets.empty()) {
      throw failure(ErrorCode::invalid_argument, "open {}: {}; {}", file.path(),
                    choice.groups.empty() ? "its groups are not one for each sample, as in the first file"
                                          : fmt::format("no group with numbers is \"{}\"", choice.groups),
                    listing(links.datasets()));
    }
    for (const std::string& name : choice.datasets) found.fields.push_back(ask_samples(links, groups, name));
    found.samples = std::ssize(groups);
    return found;
  }
  check_present(links, choice.datasets);
  for (const std::string& name : without_offsets(links, choice))
    found.fields.push_back(ask_field(links, choice, name));
  found.samples = samples_of(found.fields[0]);
  check_extents(subject, found, choice);
  return found;
}

}  // namespace

std::string Hdf5Choice::offsets_of(const std::string& name) const {
  return offsets.empty() ? name + "_offsets" : name.substr(0, name.rfind('/') + 1) + offsets;
}

void Hdf5Choice::tell_left_out(const std::string& path) const {
  if (left_out.empty()) return;
  tell(fmt::format("open {}: {}; name what you want of them (the option datasets)", path, shown(left_out)));
}

// What HDF5 itself cannot make sense of in a file that can be read is damage.
Hdf5File ask_file(const DatasetFile& file, Hdf5Choice& choice, bool may_leave) {
  constexpr int kMostTries = 30;  // of a file whose parts are written one after the other: half a second
  Hdf5Reads reads;
  for (int tries = 0;;) {
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
      const bool may_pass = error.code() == ErrorCode::io || error.code() == ErrorCode::corrupt;
      if (choice.swmr && may_pass && ++tries < kMostTries) {
        reads.forget();
        std::this_thread::sleep_for(std::chrono::milliseconds(tries));
        continue;
      }
      reads.rethrow();
      if (error.code() != ErrorCode::io) throw;
      throw failure(ErrorCode::corrupt,
                    "{}; it is truncated, damaged, half written or of a newer HDF5: fetch or write it again",
                    error.what());
    }
  }
}

}  // namespace rota::internal
