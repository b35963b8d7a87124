#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

#include "catalog/bad_files.hpp"
#include "catalog/open_context.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "formats/formats.hpp"
#include "formats/hdf5/file.hpp"
#include "formats/hdf5/source.hpp"
#include "source/field_check.hpp"

namespace rota::internal {
namespace {

// "x" and "/x" are the same dataset.
std::vector<std::string> absolute_names(std::vector<std::string> names) {
  for (std::string& name : names) {
    if (!name.starts_with('/')) name.insert(0, "/");
  }
  return names;
}

std::string shown_fields(const Hdf5File& file) {
  std::vector<std::string> fields;
  for (const Hdf5Field& field : file.fields) {
    const StoredType& type = field.values.type;
    const bool is_text = type.parts.size() == 1 && type.parts[0].is_text();
    const std::string text = type.is_short_text() ? fmt::format("text of {} bytes", type.bytes)
                                                  : std::string("text of any length");
    fields.push_back(is_text ? fmt::format("\"{}\": {}", field.field.name, text)
                             : describe(std::vector<Field>{field.field}));
  }
  return fmt::format("{}", fmt::join(fields, ", "));
}

void check_alike(const FileList& files, const std::vector<Hdf5File>& contents, std::size_t i) {
  const std::vector<Field> expected = fields_of(contents[0]);
  const std::vector<Field> found = fields_of(contents[i]);
  const auto is_stored_alike = [](const Hdf5Field& a, const Hdf5Field& b) {
    return a.values.type.joins_with(b.values.type);
  };
  const bool are_stored_alike = std::ranges::equal(contents[0].fields, contents[i].fields, is_stored_alike);
  if (found == expected && are_stored_alike) return;
  throw failure(ErrorCode::invalid_argument,
                "open {}: it has {}, and {} has {}{}; join files whose fields are the same", files.path(i),
                shown_fields(contents[i]), files.path(0), shown_fields(contents[0]),
                found == expected ? ", stored otherwise" : "");
}

// Samples of groups are ragged where any of any file has other extents, by rows of what these end with.
void join_extents(std::vector<Hdf5File>& contents) {
  for (std::size_t f = 0; f < contents[0].fields.size(); ++f) {
    const auto of = [&](Hdf5File& file) -> Hdf5Field& { return file.fields[f]; };
    const Hdf5Field first = of(contents[0]);
    const bool are_alike = std::ranges::all_of(
        contents, [&](Hdf5File& file) { return file.fields.size() <= f || of(file).field == first.field; });
    if (are_alike) continue;
    const auto has_rows = [&](Hdf5File& file) {
      return file.fields.size() > f && !of(file).values.is_scalar &&
             of(file).values.extent.size() == first.values.extent.size();
    };
    std::vector<std::int64_t> shape = first.values.row_shape();
    for (Hdf5File& file : contents) {
      if (has_rows(file))
        shape = shared_end(shape, of(file).field.ragged ? of(file).field.shape : of(file).values.extent);
    }
    for (Hdf5File& file : contents) {
      if (has_rows(file)) of(file).field = {of(file).field.name, of(file).field.dtype, shape, true};
    }
  }
}

// Texts have the widest place that they have in any file.
void join_widths(std::vector<Hdf5File>& contents) {
  for (std::size_t f = 0; f < contents[0].fields.size(); ++f) {
    const auto is_text = [&](const Hdf5File& file) {
      return file.fields.size() > f && file.fields[f].values.type.is_short_text();
    };
    std::int64_t widest = 0;
    for (const Hdf5File& file : contents) {
      if (is_text(file)) widest = std::max(widest, file.fields[f].field.shape.back());
    }
    for (Hdf5File& file : contents) {
      if (is_text(file)) file.fields[f].field.shape.back() = widest;
    }
  }
}

// From the directory that `files` are in, for FileList::beside.
std::string relative_name(const FileList& files, const std::string& path) {
  const std::string& directory = files.directory();
  if (path.starts_with(directory)) return path.substr(directory.size());
  // From where the directory really is: symbolic links may lead there.
  const std::filesystem::path target(path);
  std::error_code error;
  const auto from = std::filesystem::canonical(directory.empty() ? "." : directory, error);
  const auto to = error ? from : std::filesystem::canonical(target.parent_path(), error);
  if (error) throw system_error("open", path, error.value());
  return (to / target.filename()).lexically_relative(from).native();
}

// The files that external links lead into, if any, and their numbers among them.
std::optional<FileList> list_targets(const FileList& files, std::vector<Hdf5File>& contents) {
  std::map<std::string, std::size_t> numbers;  // by path
  std::vector<std::string> paths;
  std::vector<std::int64_t> bytes;
  for (Hdf5File& file : contents) {
    for (Hdf5Field& field : file.fields) {
      if (!field.target) continue;
      const auto [number, is_new] = numbers.try_emplace(field.target->path, paths.size());
      field.target->index = number->second;
      if (!is_new) continue;
      paths.push_back(field.target->path);
      bytes.push_back(field.target->bytes);
    }
  }
  if (paths.empty()) return std::nullopt;
  const auto names = made_on_first_rank(files.context(), "look for files that links lead to", [&] {
    std::vector<std::string> relative = paths;
    for (std::string& path : relative) path = relative_name(files, path);
    return relative;
  });
  FileList targets = files.beside(names);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets.bytes(i) == bytes[i]) continue;
    throw failure(ErrorCode::corrupt,
                  "open {}: it has {} bytes now and had {} before; open the dataset when nobody writes to it",
                  targets.path(i), targets.bytes(i), bytes[i]);
  }
  return targets;
}

// What is read as the fill value may be meant so, or its writer may have ended before.
void tell_unwritten(const FileList& files, const std::vector<Hdf5File>& contents) {
  std::int64_t missing = 0;
  std::int64_t all = 0;
  std::string first;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    for (const Hdf5Field& field : contents[i].fields) {
      for (const Hdf5Dataset& values : field.datasets()) {
        const std::int64_t absent = values.unwritten_chunks();
        all += absent + std::ssize(values.chunks);
        if (missing == 0 && absent > 0) first = fmt::format("\"{}\" in {}", values.name, files.path(i));
        missing += absent;
      }
    }
  }
  if (missing == 0 || files.context().nodes.all().rank() != 0) return;
  tell(fmt::format("open {}: {} of {} chunks were never written, and hold the fill value: the first of {}",
                   files.shown_directory(), missing, all, first));
}

// Fields of which a number is not what it is meant to be.
void tell_scaled(const FileList& files, const std::vector<Hdf5File>& contents,
                 const std::map<std::string, ScaledField>& unscaled, bool are_unscaled) {
  std::vector<std::string> fields;
  for (std::size_t f = 0; f < contents[0].fields.size(); ++f) {
    const auto file = std::ranges::find_if(contents, [&](const Hdf5File& one) {
      return one.fields[f].scaling != Scaling() || one.fields[f].is_of_other_sign;
    });
    if (file == contents.end() || unscaled.contains(file->fields[f].field.name)) continue;
    const auto& [scale, offset, missing] = file->fields[f].scaling;
    fields.push_back(fmt::format("\"{}\" of {} ", file->fields[f].field.name,
                                 files.path(static_cast<std::size_t>(file - contents.begin()))));
    fields.back() += std::isnan(scale) ? "(which unpack cannot undo)"
                     : scale == 1 && offset == 0 && missing.empty()
                         ? "(of the other sign, by _Unsigned)"
                         : fmt::format("(times {} plus {}, missing: {})", scale, offset + 0.0, missing);
  }
  if (fields.empty() || files.context().nodes.all().rank() != 0) return;
  tell(fmt::format(
      "open {}: read as they are stored: {}{}", files.shown_directory(), fmt::join(fields, ", "),
      are_unscaled ? "" : "; the option unpack gives what is meant, and NaN where it is missing"));
}

std::map<std::string, ScaledField> unscaled_fields(const FileList& files,
                                                   const std::vector<Hdf5File>& contents) {
  std::map<std::string, ScaledField> all;
  for (std::size_t f = 0; f < contents[0].fields.size(); ++f) {
    ScaledField scaled;
    bool is_any = false;
    std::int64_t end = 0;
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const Hdf5Field& field = contents[i].fields[f];
      if (!std::isfinite(field.scaling.scale) || !std::isfinite(field.scaling.offset)) {
        throw failure(
            ErrorCode::unsupported,
            "open {}: \"{}\" has a scale_factor, add_offset, _FillValue, missing_value or "
            "_Unsigned that unpack cannot undo, or not for {}; leave out that option, and convert in "
            "a transform",
            files.path(i), field.field.name, to_string(field.field.dtype));
      }
      const bool is_float = field.meant == DType::float32 || field.meant == DType::float64;
      is_any = is_any || (is_float && (field.meant != field.field.dtype || field.scaling != Scaling()));
      if (field.meant == DType::float64) scaled.dtype = DType::float64;
      scaled.scalings.push_back(field.scaling);
      scaled.ends.push_back(end += contents[i].samples);
    }
    if (is_any) all.emplace(contents[0].fields[f].field.name, std::move(scaled));
  }
  return all;
}

// Which one thread at a time can do.
void tell_left_to_library(const FileList& files, const Hdf5File& first) {
  std::vector<std::string_view> fields;
  for (const Hdf5Field& field : first.fields) {
    if (field.values.storage == Hdf5Storage::by_library) fields.push_back(field.field.name);
  }
  if (fields.empty() || files.context().nodes.all().rank() != 0) return;
  tell(fmt::format("open {}: \"{}\" are views or have filters that HDF5 itself undoes, one chunk at a time",
                   files.path(0), fmt::join(fields, "\", \"")));
}

bool is_hdf5_name(std::string_view name) { return name.ends_with(".h5") || name.ends_with(".hdf5"); }

// With HDF5's signature, perhaps behind a user block.
bool is_hdf5(const FileList& files, std::size_t i) {
  const DatasetFile file = files.open(i);
  const auto read = [&](std::uint64_t offset, std::span<std::byte> to) {
    file.read(offset, to);
    return true;
  };
  return find_hdf5_signature({file.bytes(), read}).has_value();
}

std::shared_ptr<const Source> open_hdf5(const Catalog& catalog, const Hdf5Options& options) {
  FileList files = files_of(catalog).only(is_hdf5_name);
  if (options.swmr && files.context().options.share_files) {
    throw failure(ErrorCode::unsupported,
                  "open {}: files that grow (swmr) are not copied into memory (share_files); leave out one",
                  files.shown_directory());
  }
  if (options.swmr) files.let_grow();
  Hdf5Choice choice{.datasets = absolute_names(options.datasets),
                    .offsets = options.offsets,
                    .groups = options.groups,
                    .swmr = options.swmr,
                    .are_named = !options.datasets.empty()};
  if (choice.datasets.empty()) {
    choice = look_into_first(files, "look into the first file", [&](const DatasetFile& file) {
      (void)ask_file(file, choice, options.allow_external_links);
      choice.tell_left_out(file.path());
      return choice;
    });
  }
  if ((choice.are_in_groups || !choice.groups.empty()) && (options.unpack || !options.offsets.empty())) {
    throw failure(ErrorCode::unsupported,
                  "open {}: its groups are samples, for which unpack and offsets do not work; leave them out",
                  files.path(0));
  }
  // What lies in other files may change without these.
  const std::string signature =
      options.allow_external_links || options.swmr
          ? ""
          : fmt::format("hdf5 4 datasets {}{} offsets {}{}", choice.are_named ? "named " : "",
                        choice.datasets, choice.offsets,
                        choice.groups.empty() ? "" : " groups " + choice.groups);
  auto contents = look_into_files<Hdf5File>(files, signature, [&](const DatasetFile& file) {
    Hdf5Choice same = choice;
    return ask_file(file, same, options.allow_external_links);
  });
  if (!contents[0].fields.empty() && !contents[0].fields[0].samples.empty()) join_extents(contents);
  for (Hdf5File& file : contents) {
    for (Hdf5Field& field : file.fields) {
      if (options.unpack && field.is_of_other_sign) change_sign(field);
    }
  }
  join_widths(contents);
  for (std::size_t i = 1; i < contents.size(); ++i) check_alike(files, contents, i);
  tell_unwritten(files, contents);
  tell_left_to_library(files, contents[0]);
  std::map<std::string, ScaledField> unscaled;
  if (options.unpack) unscaled = unscaled_fields(files, contents);
  tell_scaled(files, contents, unscaled, options.unpack);
  auto targets = list_targets(files, contents);
  auto shared = SharedFiles::make(files, as_they_are(files));
  const auto context = files.shared_context();
  return made_together(*context, "open files", [&] {
    auto source = read_hdf5(std::move(files), std::move(shared), std::move(targets), std::move(contents));
    return unscaled.empty() ? source : unscale(source, std::move(unscaled));
  });
}

}  // namespace

constinit const FormatEntry kHdf5Format =
    opened_by<open_hdf5>({.name = "hdf5",
                          .endings = {".h5", ".hdf5"},
                          .begins = is_hdf5,
                          .options = {{"datasets", option<&Hdf5Options::datasets>},
                                      {"offsets", option<&Hdf5Options::offsets>},
                                      {"allow_external_links", option<&Hdf5Options::allow_external_links>},
                                      {"unpack", option<&Hdf5Options::unpack>},
                                      {"groups", option<&Hdf5Options::groups>},
                                      {"swmr", option<&Hdf5Options::swmr>}}});

}  // namespace rota::internal

namespace rota {

void Hdf5Options::validate() const {
  std::vector<std::string> names = internal::absolute_names(datasets);
  for (std::string& name : names) name.erase(0, 1);
  internal::require_distinct("datasets", names);
}

}  // namespace rota
