#include "formats/hdf5/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>

#include "core/failure.hpp"
#include "files/descriptor.hpp"
#include "formats/hdf5/filters.hpp"
#include "formats/open_files.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kRewriteAdvice = "rewrite it, in h5py with f.create_dataset(name, data=...)";

// One dataset being asked about.
struct Question {
  const Hdf5Subject& subject;
  std::string what;
  hdf5::Dataset dataset;
  hdf5::Properties properties;  // those of its creation
};

Error unsupported(const Question& question, std::string_view reason, std::string_view advice) {
  return failure(ErrorCode::unsupported, "{} {}; {}", question.what, reason, advice);
}

// A scalar, where there may be one, is one row.
std::vector<std::int64_t> ask_extent(const Question& question, bool may_be_scalar, bool& is_scalar) {
  const hdf5::Dataspace space(H5Dget_space(question.dataset.get()), question.what);
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  const int rank = kind == H5S_SIMPLE ? H5Sget_simple_extent_ndims(space.get()) : 0;
  is_scalar = kind == H5S_SCALAR;
  if (may_be_scalar && is_scalar) return {1};
  if (rank < 1) {
    throw failure(ErrorCode::invalid_argument, "{} is a scalar and has no rows; leave it out of the datasets",
                  question.what);
  }
  std::vector<hsize_t> extent(static_cast<std::size_t>(rank));
  hdf5::check(H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr), question.what);
  return {extent.begin(), extent.end()};
}

// Error{corrupt}.
Error damaged(const Question& question, const std::string& what) {
  return failure(ErrorCode::corrupt, "{} {}; fetch or write the file again", question.what, what);
}

StoredType ask_type(const Question& question) {
  const hdf5::Datatype type(H5Dget_type(question.dataset.get()), question.what);
  if (auto stored = stored_type(type.get(), question.what)) return std::move(*stored);
  throw unsupported(question, fmt::format("holds {}, which rota does not read", describe(type.get())),
                    "rewrite it as integers, floats or text (in h5py, data.astype('<f4') and such), or leave "
                    "it out of the datasets");
}

bool is_elsewhere(const Hdf5Dataset& dataset) {
  return std::ranges::any_of(dataset.type.parts, &StoredPart::is_elsewhere);
}

void add_axes(const StoredType& type, std::vector<std::int64_t>& extents) {
  extents = type.as_stored("", std::move(extents)).shape;
}

// Extents come from the file: their product must be believable before it is computed with.
void check_size(const Question& question, const Hdf5Dataset& dataset) {
  std::uint64_t bytes = size_of(dataset.dtype);
  bool is_absurd = false;
  for (const std::int64_t extent : dataset.extent) {
    if (extent == 0) return;
    is_absurd |= extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes);
  }
  if (!is_absurd && bytes <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return;
  throw damaged(question, fmt::format("claims extents [{}], more bytes than there can be",
                                      fmt::join(dataset.extent, ", ")));
}

void check_inside(const Question& question, std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = question.subject.bytes;
  if (address <= end && bytes <= end - address) return;
  throw damaged(question,
                fmt::format("has {} bytes at byte {}, past the end of the file at {}: it was truncated",
                            bytes, address, end));
}

// Once it is known where its rows are.
void ask_fill(const Question& question, Hdf5Dataset& dataset) {
  H5D_fill_value_t status = H5D_FILL_VALUE_UNDEFINED;
  hdf5::check(H5Pfill_value_defined(question.properties.get(), &status), question.what);
  if (status != H5D_FILL_VALUE_USER_DEFINED) return;
  if (is_elsewhere(dataset)) {
    if (dataset.unwritten_chunks() == 0) return;
    throw unsupported(question, "has rows that were not written, and a fill value of text or sequences",
                      "write all its rows");
  }
  check_inside(question, 0, dataset.type.bytes);
  dataset.fill.resize(dataset.type.bytes);
  const hdf5::Datatype type(H5Dget_type(question.dataset.get()), question.what);
  hdf5::check(H5Pget_fill_value(question.properties.get(), type.get(), dataset.fill.data()), question.what);
}

// Where addresses in the elements of `dataset` count from.
std::uint64_t ask_heap_base(const Question& question) {
  const hdf5::Properties file(H5Fget_create_plist(question.subject.file.get()), question.what);
  std::size_t address_bytes = 0;
  std::size_t length_bytes = 0;
  hsize_t user_block = 0;
  hdf5::check(H5Pget_sizes(file.get(), &address_bytes, &length_bytes), question.what);
  hdf5::check(H5Pget_userblock(file.get(), &user_block), question.what);
  if (address_bytes == sizeof(std::uint64_t) && length_bytes == sizeof(std::uint64_t)) return user_block;
  throw unsupported(question, fmt::format("has text or sequences at addresses of {} bytes", address_bytes),
                    kRewriteAdvice);
}

void ask_contiguous(const Question& question, Hdf5Dataset& dataset) {
  if (H5Pget_external_count(question.properties.get()) > 0) {
    throw unsupported(question, "keeps its data in other files", kRewriteAdvice);
  }
  const haddr_t address = H5Dget_offset(question.dataset.get());
  if (address == HADDR_UNDEF) {
    H5Eclear2(H5E_DEFAULT);
    return;  // never written
  }
  check_inside(question, address, dataset.bytes());
  dataset.storage = Hdf5Storage::contiguous;
  dataset.address = address;
}

void ask_compact(const Question& question, Hdf5Dataset& dataset) {
  const hdf5::Datatype type(H5Dget_type(question.dataset.get()), question.what);
  const std::size_t bytes = dataset.bytes();
  check_inside(question, 0, bytes);
  if (H5Dget_storage_size(question.dataset.get()) < bytes)  // which HDF5 would read past
    throw damaged(question, fmt::format("has less than its {} bytes", bytes));
  if (is_elsewhere(dataset)) {
    throw unsupported(question, "keeps sequences or text of any length in the file's header", kRewriteAdvice);
  }
  dataset.contents.resize(bytes);
  hdf5::check(
      H5Dread(question.dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.contents.data()),
      question.what);
  dataset.storage = Hdf5Storage::memory;
}

// HDF5 must have those that it is left to undo.
std::vector<int> ask_filters(const Question& question, bool is_left = false) {
  std::vector<int> filters;
  char name[64] = "";
  const auto ask = [&](int i) {
    return hdf5::check(H5Pget_filter2(question.properties.get(), static_cast<unsigned>(i), nullptr, nullptr,
                                      nullptr, sizeof(name), &name[0], nullptr),
                       question.what);
  };
  const int count = hdf5::check(H5Pget_nfilters(question.properties.get()), question.what);
  filters.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) filters.push_back(ask(i));
  for (int i = 0; i < count && (is_left || need_library(filters)); ++i) {
    const int id = ask(i);
    if (H5Zfilter_avail(id) > 0) continue;
    H5Eclear2(H5E_DEFAULT);
    throw unsupported(
        question, fmt::format("uses filter {} \"{}\", for which there is no plug-in here", id, &name[0]),
        "install it, and start anew with HDF5_PLUGIN_PATH=its directory (pip install hdf5plugin, "
        "hdf5plugin.PLUGIN_PATH; on Debian, hdf5-filter-plugin-*), or rewrite it: h5repack -f GZIP=4");
  }
  return filters;
}

// A chunk that each thread decodes must not drive the machine into swapping.
void check_memory(const Question& question, const Hdf5Dataset& dataset) {
  const double bytes = (dataset.filters.size() > 1 ? 2.0 : 1.0) * static_cast<double>(dataset.chunk_bytes());
  if (bytes <= memory_bytes() / 4) return;
  throw unsupported(
      question,
      fmt::format("has chunks that take {:.0f} bytes to decode, of {:.0f} of memory", bytes, memory_bytes()),
      "rewrite it in smaller ones, e.g. h5repack -l CHUNK=...");
}

// `rows` at a time, and no more than there are.
void leave_to_library(const Question& question, Hdf5Dataset& dataset, std::int64_t rows) {
  if (question.subject.is_stored)
    throw unsupported(question, "can be read by HDF5 alone, from files of a file system",
                      "copy it to a disk");
  if (is_elsewhere(dataset))
    throw unsupported(question, "has text or sequences of any length, in such a storage", kRewriteAdvice);
  dataset.chunk = dataset.extent;
  dataset.chunk[0] = std::clamp<std::int64_t>(rows, 1, dataset.extent[0]);
  dataset.chunks_per_slab = 1;
  dataset.storage = Hdf5Storage::by_library;
}

// Where chunk `number` begins in the dataset; returns whether it sticks out over the dataset's edge.
bool find_origin(const Hdf5Dataset& dataset, std::int64_t number, std::vector<hsize_t>& origin) {
  bool is_partial = false;
  for (std::size_t d = origin.size(); d-- > 0;) {
    const std::int64_t chunks = (dataset.extent[d] - 1) / dataset.chunk[d] + 1;
    const std::int64_t first = number % chunks * dataset.chunk[d];
    is_partial |= dataset.extent[d] - first < dataset.chunk[d];
    origin[d] = static_cast<hsize_t>(first);
    number /= chunks;
  }
  return is_partial;
}

void check_chunk(const Question& question, const Hdf5Dataset& dataset, const StoredChunk& chunk) {
  check_inside(question, chunk.address, chunk.bytes);
  std::uint64_t ratio = 1;
  for (std::size_t i = 0; i < dataset.filters.size(); ++i) {
    if ((chunk.filter_mask >> i & 1U) == 0) ratio *= most_ratio(dataset.filters[i]);
  }
  if (dataset.chunk_bytes() / ratio <= chunk.bytes) return;
  throw damaged(question, fmt::format("claims that the {} bytes at byte {} are a chunk of {}", chunk.bytes,
                                      chunk.address, dataset.chunk_bytes()));
}

// Each chunk of the grid is asked about, written or not.
void check_grid(const Question& question, const Hdf5Dataset& dataset) {
  const std::int64_t chunks = dataset.grid_chunks();
  if (static_cast<std::uint64_t>(chunks) / 1024 <= question.subject.bytes + 4096) return;
  throw failure(ErrorCode::corrupt,
                "{} claims {} chunks, in a file of {} bytes; fetch or write it again, in larger chunks",
                question.what, chunks, question.subject.bytes);
}

void ask_chunks(const Question& question, Hdf5Dataset& dataset) {
  unsigned options = 0;
  hdf5::check(H5Pget_chunk_opts(question.properties.get(), &options), question.what);
  const bool has_plain_edges = (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0;
  const std::uint64_t stored = question.subject.file.stored_chunks(question.dataset.get(), question.what);
  std::vector<hsize_t> origin(dataset.extent.size());
  for (std::int64_t number = 0; number < dataset.grid_chunks(); ++number) {
    const bool is_plain = find_origin(dataset, number, origin) && has_plain_edges;
    const auto place = question.subject.file.chunk(question.dataset.get(), origin.data(), question.what);
    if (!place) continue;
    dataset.chunks.push_back({number, place->address, static_cast<std::uint32_t>(place->bytes),
                              is_plain ? ~std::uint32_t{0} : place->filter_mask});
    check_chunk(question, dataset, dataset.chunks.back());
  }
  dataset.chunks.shrink_to_fit();
  if (dataset.chunks.size() == stored) return;
  throw damaged(question, fmt::format("has {} chunks, of which HDF5 finds {}: its index is damaged", stored,
                                      dataset.chunks.size()));
}

void ask_chunked(const Question& question, Hdf5Dataset& dataset) {
  std::vector<hsize_t> chunk(dataset.extent.size());
  const int rank = hdf5::check(
      H5Pget_chunk(question.properties.get(), static_cast<int>(chunk.size()), chunk.data()), question.what);
  dataset.chunk.assign(chunk.begin(), chunk.begin() + rank);
  add_axes(dataset.type, dataset.chunk);
  dataset.filters = ask_filters(question);
  if (need_library(dataset.filters)) return leave_to_library(question, dataset, dataset.chunk[0]);
  for (std::size_t d = 1; d < chunk.size(); ++d) {
    dataset.chunks_per_slab *= (dataset.extent[d] + dataset.chunk[d] - 1) / dataset.chunk[d];
  }
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  hdf5::check(H5Dget_space_status(question.dataset.get(), &status), question.what);
  if (status == H5D_SPACE_STATUS_NOT_ALLOCATED) return;  // never written
  check_grid(question, dataset);
  ask_chunks(question, dataset);
  if (!dataset.chunks.empty()) dataset.storage = Hdf5Storage::chunked;
}

// Notes the file of a part, which HDF5 would read as fill values where it is missing.
void add_part(const Question& question, std::size_t i, Hdf5Dataset& dataset) {
  const hid_t properties = question.properties.get();
  const auto text = [&](auto ask) {
    std::string name(static_cast<std::size_t>(hdf5::check(ask(properties, i, nullptr, 0), question.what)),
                     '\0');
    hdf5::check(ask(properties, i, name.data(), name.size() + 1), question.what);
    return name;
  };
  const std::filesystem::path name = text(H5Pget_virtual_filename);
  const std::filesystem::path own(question.subject.path);
  const std::string path = name == "." ? own.native() : (own.parent_path() / name).native();
  const auto below = name.lexically_normal();
  if (!question.subject.may_leave && (below.is_absolute() || below.native().starts_with("..")))
    throw unsupported(question, fmt::format("is a view of {}, in another directory", path),
                      "allow it to be followed (the option allow_external_links)");
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(path, missing);
  if (missing) throw system_error(question.what + " is a view of", path, missing.value());
  const hdf5::File opened(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
                          question.what + ": open " + path);
  const std::string part = text(H5Pget_virtual_dsetname);
  const std::string what = fmt::format("{}: dataset \"{}\" in {}", question.what, part, path);
  const hdf5::Dataset there(H5Dopen2(opened.get(), part.c_str(), H5P_DEFAULT), what);
  (void)ask_filters({question.subject, what, {}, {H5Dget_create_plist(there.get()), what}}, true);
  dataset.parts[path] = static_cast<std::int64_t>(bytes);
}

void ask_virtual(const Question& question, Hdf5Dataset& dataset) {
  constexpr std::size_t kBytesAtATime = 1 << 20;
  std::size_t parts = 0;
  hdf5::check(H5Pget_virtual_count(question.properties.get(), &parts), question.what);
  const hdf5::Dataspace all(H5Dget_space(question.dataset.get()), question.what);
  hssize_t unmapped = H5Sget_simple_extent_npoints(all.get());
  for (std::size_t i = 0; i < parts; ++i) {
    const hdf5::Dataspace mapped(H5Pget_virtual_vspace(question.properties.get(), i), question.what);
    const hssize_t count = H5Sget_select_npoints(mapped.get());
    if (count < 0) throw unsupported(question, "is a virtual dataset that grows", kRewriteAdvice);
    unmapped -= count;
    add_part(question, i, dataset);
  }
  if (unmapped != 0)
    throw unsupported(question, "is a virtual dataset with gaps or overlaps", "map each element once");
  leave_to_library(question, dataset,
                   static_cast<std::int64_t>(kBytesAtATime / std::max<std::size_t>(dataset.row_bytes(), 1)));
}

}  // namespace

std::string Hdf5Subject::what(const std::string& name) const {
  return fmt::format("open {}: dataset \"{}\"", path, name);
}

Hdf5Dataset ask_dataset(const Hdf5Subject& subject, const std::string& name, bool may_be_scalar) {
  const auto guard = hdf5::lock();
  const std::string what = subject.what(name);
  Question question{subject, what, {H5Dopen2(subject.file.get(), name.c_str(), H5P_DEFAULT), what}, {}};
  question.properties = {H5Dget_create_plist(question.dataset.get()), what};
  Hdf5Dataset dataset;
  dataset.name = name;
  dataset.type = ask_type(question);
  dataset.dtype = dataset.type.as_stored("", {}).dtype;
  dataset.extent = ask_extent(question, may_be_scalar, dataset.is_scalar);
  add_axes(dataset.type, dataset.extent);
  check_size(question, dataset);
  if (is_elsewhere(dataset)) dataset.heap_base = ask_heap_base(question);
  if (std::find(dataset.extent.begin(), dataset.extent.end(), 0) != dataset.extent.end()) return dataset;
  const H5D_layout_t layout = H5Pget_layout(question.properties.get());
  const auto ask_storage = layout == H5D_CONTIGUOUS ? ask_contiguous
                           : layout == H5D_COMPACT  ? ask_compact
                           : layout == H5D_CHUNKED  ? ask_chunked
                                                    : ask_virtual;
  ask_storage(question, dataset);
  if (dataset.is_decoded()) check_memory(question, dataset);
  ask_fill(question, dataset);
  return dataset;
}

}  // namespace rota::internal
