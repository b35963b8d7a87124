#include "formats/hdf5/file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "formats/hdf5/links.hpp"
#include "formats/hdf5/type.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kOffsetsSuffix = "_offsets";
constexpr std::size_t kNamesInMessage = 20;

// A callback of C: nothing may be thrown through it.
template <typename Info>
herr_t add_dataset(hid_t /*root*/, const char* name, const Info* info, void* names) noexcept {
  if (info->type != H5O_TYPE_DATASET) return 0;
  try {
    static_cast<std::vector<std::string>*>(names)->push_back(fmt::format("/{}", name));
  } catch (...) {
    return -1;
  }
  return 0;
}

// Of datasets of any type, in any group, by name; and of external links to anything.
std::vector<std::string> dataset_names(const Hdf5Links& links) {
  const Hdf5Subject& subject = links.from();
  std::vector<std::string> names = links.external();
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
  H5Eclear2(H5E_DEFAULT);
  if (object < 0 && at.is_linked) {
    throw Error(
        ErrorCode::not_found,
        fmt::format("{} leads by an external link to \"{}\" in {}, which has no such object; write the "
                    "link anew",
                    links.from().what(name), at.name, at.subject->path));
  }
  if (object < 0) return false;
  const hdf5::Object owner(object, name);
  return H5Iget_type(object) == H5I_DATASET;
}

hdf5::Dataset open_dataset(const Hdf5Object& at) {
  return {H5Dopen2(at.subject->file.get(), at.name.c_str(), H5P_DEFAULT), at.subject->what(at.name)};
}

// Whether `name` is a dataset of numbers, with at least one dimension; of integers in exactly one, where
// `as_offsets`.
bool is_usable(Hdf5Links& links, const std::string& name, bool as_offsets) {
  if (!is_dataset(links, name)) return false;
  const std::string what = links.from().what(name);
  const hdf5::Dataset dataset = open_dataset(links.follow(name));
  const hdf5::Datatype type(H5Dget_type(dataset.get()), what);
  const hdf5::Dataspace space(H5Dget_space(dataset.get()), what);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  return as_offsets ? rank == 1 && H5Tget_class(type.get()) == H5T_INTEGER
                    : rank >= 1 && is_numeric(type.get());
}

std::string offsets_of(const std::string& name) { return name + std::string(kOffsetsSuffix); }

bool is_ragged(Hdf5Links& links, const std::string& name) { return is_usable(links, offsets_of(name), true); }

std::vector<std::string> numeric_datasets(Hdf5Links& links) {
  const std::vector<std::string> all = dataset_names(links);
  std::vector<std::string> names;
  std::copy_if(all.begin(), all.end(), std::back_inserter(names),
               [&](const std::string& name) { return is_usable(links, name, false); });
  if (!names.empty()) return names;
  throw Error(ErrorCode::not_found,
              fmt::format("open {}: no dataset of numbers with rows; {}", links.from().path,
                          all.empty() ? "it has no dataset at all" : listing(all)));
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
  for (const Hdf5Field& field : file.fields) {
    if (samples_of(field) == file.samples) continue;
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("open {}: \"/{}\" holds {} samples and \"/{}\" holds {}; fields need the same number: "
                    "name those to read with Hdf5Options::datasets",
                    subject.path, file.fields[0].field.name, file.samples, field.field.name,
                    samples_of(field)));
  }
}

}  // namespace

Hdf5File ask_file(const std::string& path, std::int64_t bytes, std::vector<std::string>& datasets,
                  bool may_leave) {
  const auto guard = hdf5::lock();
  hdf5::AddressFile address_file(path);
  const Hdf5Subject subject{address_file, path, static_cast<std::uint64_t>(bytes)};
  Hdf5Links links(subject, may_leave);
  if (datasets.empty()) datasets = numeric_datasets(links);
  check_present(links, datasets);
  Hdf5File file;
  for (const std::string& name : without_offsets(links, datasets)) {
    file.fields.push_back(ask_field(links, name));
  }
  file.samples = samples_of(file.fields[0]);
  check_extents(subject, file);
  return file;
}

}  // namespace rota::internal
