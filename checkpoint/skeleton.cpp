#include "skeleton.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.hpp"

namespace rota::checkpoint {
namespace {

constexpr std::uint64_t kImagePageBytes = 4096;

// Large datasets begin at a page of the file, for those who map it.
constexpr hsize_t kAlignedFrom = 65'536;
constexpr hsize_t kAlignment = 4096;

hdf5::Datatype string_type(std::size_t bytes, H5T_str_t padding) {
  hdf5::Datatype type(H5Tcopy(H5T_C_S1), "make an HDF5 string type");
  hdf5::check(H5Tset_size(type.get(), bytes), "make an HDF5 string type");
  hdf5::check(H5Tset_strpad(type.get(), padding), "make an HDF5 string type");
  return type;
}

void write_attribute(hid_t object, const char* name, const hdf5::Datatype& file_type, hid_t memory_type,
                     const void* value) {
  const hdf5::Dataspace scalar(H5Screate(H5S_SCALAR), name);
  const hdf5::Attribute attribute(
      H5Acreate2(object, name, file_type.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT), name);
  hdf5::check(H5Awrite(attribute.get(), memory_type, value), name);
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  write_attribute(object, name, hdf5::file_type(DType::int64), H5T_NATIVE_INT64, &value);
}

void write_attribute(hid_t object, const char* name, std::uint64_t value) {
  write_attribute(object, name, hdf5::file_type(DType::uint64), H5T_NATIVE_UINT64, &value);
}

void write_attribute(hid_t object, const char* name, std::string_view value) {
  const hdf5::Datatype type = string_type(value.size(), H5T_STR_NULLPAD);
  write_attribute(object, name, type, type.get(), value.data());
}

hdf5::File create_file(const hdf5::Properties& access, std::string_view what) {
  hdf5::check(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18), what);
  hdf5::check(H5Pset_alignment(access.get(), kAlignedFrom, kAlignment), what);
  const hdf5::Properties creation(H5Pcreate(H5P_FILE_CREATE), what);
  hdf5::check(H5Pset_userblock(creation.get(), kPageBytes), what);
  hdf5::check(H5Pset_obj_track_times(creation.get(), false), what);
  return {H5Fcreate("checkpoint", H5F_ACC_TRUNC, creation.get(), access.get()), what};
}

// Creation properties that the datasets share.
struct Creation {
  Creation() {
    hdf5::check(H5Pset_obj_track_times(group.get(), false), "keep times out of a group");
    hdf5::check(H5Pset_layout(dataset.get(), H5D_CONTIGUOUS), "make a dataset contiguous");
    hdf5::check(H5Pset_alloc_time(dataset.get(), H5D_ALLOC_TIME_EARLY), "allot a dataset");
    hdf5::check(H5Pset_fill_time(dataset.get(), H5D_FILL_TIME_NEVER), "leave a dataset unwritten");
    hdf5::check(H5Pset_obj_track_times(dataset.get(), false), "keep times out of a dataset");
  }
  hdf5::Properties group{H5Pcreate(H5P_GROUP_CREATE), "make group properties"};
  hdf5::Properties dataset{H5Pcreate(H5P_DATASET_CREATE), "make dataset properties"};
};

// The groups that lead to `path`, those that are not there yet. HDF5 could do so by itself, but puts times
// into them.
void create_groups(const hdf5::File& file, const std::string& path, const Creation& creation) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string group = path.substr(0, slash);
    if (hdf5::check(H5Lexists(file.get(), group.c_str(), H5P_DEFAULT), group) > 0) continue;
    hdf5::Group(H5Gcreate2(file.get(), group.c_str(), H5P_DEFAULT, creation.group.get(), H5P_DEFAULT),
                fmt::format("create group {}", group));
  }
}

hdf5::Dataset create_dataset(const hdf5::File& file, const std::string& path, const hdf5::Datatype& type,
                             std::span<const std::int64_t> shape, const Creation& creation) {
  const std::vector<hsize_t> lengths(shape.begin(), shape.end());
  const std::string what = fmt::format("create dataset {}", path);
  create_groups(file, path, creation);
  const hdf5::Dataspace space(H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr),
                              what);
  return {H5Dcreate2(file.get(), path.c_str(), type.get(), space.get(), H5P_DEFAULT, creation.dataset.get(),
                     H5P_DEFAULT),
          what};
}

// In the file as a whole, user block included.
std::uint64_t offset_of(const hdf5::Dataset& dataset) {
  const haddr_t offset = H5Dget_offset(dataset.get());
  return offset == HADDR_UNDEF ? 0 : offset;
}

std::uint64_t add_tensor(const hdf5::File& file, const TensorInfo& tensor, std::uint64_t row_digest,
                         const Creation& creation) {
  const hdf5::Dataset dataset = create_dataset(file, fmt::format("/{}", tensor.name),
                                               hdf5::file_type(tensor.dtype), tensor.shape, creation);
  write_attribute(dataset.get(), "dtype", to_string(tensor.dtype));
  write_attribute(dataset.get(), "distributed_axis", std::int64_t{0});
  write_attribute(dataset.get(), "row_digest", row_digest);
  return offset_of(dataset);
}

// The compound type of a row of the blob index, without padding.
hdf5::Datatype blob_index_type(std::size_t name_bytes) {
  const std::string_view what = "make the type of the blob index";
  const hdf5::Datatype name = string_type(name_bytes, H5T_STR_NULLPAD);
  const std::pair<const char*, hid_t> members[] = {
      {"rank", H5T_STD_I32LE},          {"codec", H5T_STD_U8LE},  {"offset", H5T_STD_U64LE},
      {"stored_bytes", H5T_STD_U64LE},  {"bytes", H5T_STD_U64LE}, {"checksum_low", H5T_STD_U64LE},
      {"checksum_high", H5T_STD_U64LE}, {"name", name.get()},
  };
  std::size_t bytes = 0;
  for (const auto& [member, type] : members) bytes += H5Tget_size(type);
  hdf5::Datatype row(H5Tcreate(H5T_COMPOUND, bytes), what);
  std::size_t at = 0;
  for (const auto& [member, type] : members) {
    hdf5::check(H5Tinsert(row.get(), member, at, type), what);
    at += H5Tget_size(type);
  }
  return row;
}

void add_blob_index(const hdf5::File& file, std::span<const BlobEntry> blobs, const Creation& creation) {
  std::size_t name_bytes = 0;
  for (const BlobEntry& entry : blobs) name_bytes = std::max(name_bytes, entry.name.size());
  internal::ByteWriter writer;
  for (const BlobEntry& entry : blobs) {
    visit_numbers(entry, [&](const auto& number) { writer.add(number); });
    writer.add_bytes(std::as_bytes(std::span(entry.name)));
    writer.add_bytes(std::vector<std::byte>(name_bytes - entry.name.size()));
  }
  const std::vector<std::byte> rows = std::move(writer).take();
  const hdf5::Datatype type = blob_index_type(name_bytes);
  const auto count = static_cast<std::int64_t>(blobs.size());
  const hdf5::Dataset index =
      create_dataset(file, fmt::format("/{}/blobs/index", kOwnGroup), type, {&count, 1}, creation);
  hdf5::check(H5Dwrite(index.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()),
              "write the blob index");
}

void describe(const hdf5::File& file, const CommitPage& page) {
  const hdf5::Group root(H5Gopen2(file.get(), "/", H5P_DEFAULT), "open the root group");
  write_attribute(root.get(), "format_version", static_cast<std::int64_t>(kFormatVersion));
  write_attribute(root.get(), "serial", page.serial);
  write_attribute(root.get(), "parent", page.parent);
  write_attribute(root.get(), "step", page.step);
  write_attribute(root.get(), "world_size", page.world_size);
  write_attribute(root.get(), "run_id", to_hex(page.run_id));
  write_attribute(root.get(), "writer", "rota " ROTA_VERSION);
}

}  // namespace

void SparseImage::read(std::uint64_t at, std::span<std::byte> out, bool /*is_data*/) {
  while (!out.empty()) {
    const std::uint64_t in_page = at % kImagePageBytes;
    const std::size_t count = std::min<std::uint64_t>(out.size(), kImagePageBytes - in_page);
    if (const auto page = pages_.find(at / kImagePageBytes); page != pages_.end()) {
      std::memcpy(out.data(), page->second.data() + in_page, count);
    } else {
      std::memset(out.data(), 0, count);
    }
    out = out.subspan(count);
    at += count;
  }
}

void SparseImage::write(std::uint64_t at, std::span<const std::byte> data) {
  while (!data.empty()) {
    const std::uint64_t in_page = at % kImagePageBytes;
    const std::size_t count = std::min<std::uint64_t>(data.size(), kImagePageBytes - in_page);
    std::vector<std::byte>& page = pages_[at / kImagePageBytes];
    page.resize(kImagePageBytes);
    std::memcpy(page.data() + in_page, data.data(), count);
    data = data.subspan(count);
    at += count;
  }
}

SparseImage make_skeleton(Contents& contents, const CommitPage& page) {
  const auto guard = hdf5::lock();
  constexpr std::string_view kMaking = "make the skeleton of a checkpoint";
  SparseImage image;
  const hdf5::Properties access(H5Pcreate(H5P_FILE_ACCESS), kMaking);
  const hdf5::Driver driver = hdf5::drive(access, &image, kMaking);
  hdf5::File file = create_file(access, kMaking);
  describe(file, page);
  const Creation creation;
  for (std::size_t t = 0; t < contents.tensors.size(); ++t) {
    TensorPlace& place = contents.places[t];
    place.offset = add_tensor(file, contents.tensors[t], place.row_digest, creation);
  }
  if (!contents.blobs.empty()) {
    add_blob_index(file, contents.blobs, creation);
    const auto bytes = static_cast<std::int64_t>(contents.blob_bytes);
    contents.blob_offset = offset_of(create_dataset(file, fmt::format("/{}/blobs/bytes", kOwnGroup),
                                                    hdf5::file_type(DType::uint8), {&bytes, 1}, creation));
  }
  file.close("finish the skeleton of a checkpoint");
  return image;
}

}  // namespace rota::checkpoint
