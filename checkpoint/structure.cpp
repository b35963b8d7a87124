#include "structure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "commit_page.hpp"
#include "hdf5/hdf5.hpp"
#include "rota/error.hpp"
#include "skeleton.hpp"

namespace rota::checkpoint {
namespace {

// Longer than the name of any element type.
constexpr std::size_t kMaxTypeName = 64;

[[noreturn]] void reject(std::string_view path, std::string_view why) {
  throw Error(ErrorCode::corrupt, fmt::format("dataset {}: {}", path, why));
}

void require(bool condition, std::string_view path, std::string_view why) {
  if (!condition) reject(path, why);
}

herr_t add_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* paths) {
  try {
    if (info->type == H5L_TYPE_HARD) static_cast<std::vector<std::string>*>(paths)->emplace_back(name);
    return 0;
  } catch (const std::exception&) {
    return -1;  // C code calls this
  }
}

// Paths of all groups and datasets, each headed by "/".
std::vector<std::string> list_objects(const hdf5::File& file) {
  std::vector<std::string> paths;
  hdf5::check(H5Lvisit(file.get(), H5_INDEX_NAME, H5_ITER_NATIVE, add_link, &paths), "list its datasets");
  for (std::string& path : paths) path.insert(path.begin(), '/');
  return paths;
}

// An open dataset whose data is one run of bytes of the file.
class ContiguousDataset {
 public:
  ContiguousDataset(hdf5::Dataset dataset, std::string path, std::uint64_t hdf5_end)
      : dataset_(std::move(dataset)), path_(std::move(path)), type_(H5Dget_type(dataset_.get()), path_) {
    const hdf5::Properties creation(H5Dget_create_plist(dataset_.get()), path_);
    require(H5Pget_layout(creation.get()) == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0,
            path_, "its data is not contiguous");
    read_shape();
    auto bytes = static_cast<std::int64_t>(H5Tget_size(type_.get()));
    require(bytes > 0, path_, "its type has no size");
    for (const std::int64_t length : shape_) {
      bytes = checked_product(bytes, length);
      require(bytes >= 0, path_, "its size is more than a number can say");
    }
    bytes_ = static_cast<std::uint64_t>(bytes);
    if (bytes_ == 0) return;
    const haddr_t offset = H5Dget_offset(dataset_.get());
    require(offset != HADDR_UNDEF && offset >= kPageBytes && offset < hdf5_end && bytes_ <= hdf5_end - offset,
            path_, "its data does not lie within the file");
    offset_ = offset;
  }

  [[nodiscard]] hid_t id() const { return dataset_.get(); }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const hdf5::Datatype& type() const { return type_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void read_shape() {
    const hdf5::Dataspace space(H5Dget_space(dataset_.get()), path_);
    const int dimensions = H5Sget_simple_extent_ndims(space.get());
    require(dimensions >= 1 && dimensions <= H5S_MAX_RANK, path_, "it has no rows");
    std::array<hsize_t, H5S_MAX_RANK> lengths{};
    hdf5::check(H5Sget_simple_extent_dims(space.get(), lengths.data(), nullptr), path_);
    for (const hsize_t length : std::span(lengths).first(static_cast<std::size_t>(dimensions))) {
      require(length <= INT64_MAX, path_, "its size is more than a number can say");
      shape_.push_back(static_cast<std::int64_t>(length));
    }
  }

  hdf5::Dataset dataset_;
  std::string path_;
  hdf5::Datatype type_;
  std::vector<std::int64_t> shape_;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

hdf5::Attribute open_attribute(const ContiguousDataset& dataset, const char* name) {
  require(H5Aexists(dataset.id(), name) > 0, dataset.path(), fmt::format("it has no attribute {}", name));
  hdf5::Attribute attribute(H5Aopen(dataset.id(), name, H5P_DEFAULT), dataset.path());
  const hdf5::Dataspace space(H5Aget_space(attribute.get()), dataset.path());
  require(H5Sget_simple_extent_npoints(space.get()) == 1, dataset.path(),
          fmt::format("its attribute {} is not one value", name));
  return attribute;
}

DType read_dtype(const ContiguousDataset& dataset) {
  const hdf5::Attribute attribute = open_attribute(dataset, "dtype");
  const hdf5::Datatype type(H5Aget_type(attribute.get()), dataset.path());
  const std::size_t bytes = H5Tget_size(type.get());
  require(H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0 && bytes > 0 &&
              bytes <= kMaxTypeName,
          dataset.path(), "its attribute dtype is no short string");
  std::string name(bytes, '\0');
  hdf5::check(H5Aread(attribute.get(), type.get(), name.data()), dataset.path());
  const DType dtype = parse_dtype(name.c_str());
  require(H5Tequal(dataset.type().get(), hdf5::file_type(dtype).get()) > 0, dataset.path(),
          fmt::format("its type is not that of its attribute dtype, {}", to_string(dtype)));
  return dtype;
}

std::uint64_t read_row_digest(const ContiguousDataset& dataset) {
  const hdf5::Attribute attribute = open_attribute(dataset, "row_digest");
  std::uint64_t digest = 0;
  hdf5::check(H5Aread(attribute.get(), H5T_NATIVE_UINT64, &digest), dataset.path());
  return digest;
}

void add_tensor(Structure& structure, const ContiguousDataset& dataset, std::string name) {
  TensorInfo info{.name = std::move(name), .dtype = read_dtype(dataset), .shape = dataset.shape()};
  const std::int64_t rows = info.rows();
  structure.places.push_back({.offset = dataset.offset(),
                              .row_bytes = rows == 0 ? 0 : static_cast<std::int64_t>(dataset.bytes()) / rows,
                              .row_digest = read_row_digest(dataset)});
  structure.tensors.push_back(std::move(info));
}

// The width of the names in the index, which must have all members.
std::size_t index_name_bytes(const ContiguousDataset& index) {
  const hid_t type = index.type().get();
  require(H5Tget_class(type) == H5T_COMPOUND, index.path(), "its type is no compound");
  for (const char* member :
       {"rank", "codec", "offset", "stored_bytes", "bytes", "checksum_low", "checksum_high"}) {
    const int number = H5Tget_member_index(type, member);
    require(number >= 0 && H5Tget_member_class(type, static_cast<unsigned>(number)) == H5T_INTEGER,
            index.path(), fmt::format("it has no integers \"{}\"", member));
  }
  const int number = H5Tget_member_index(type, "name");
  require(number >= 0, index.path(), "it has no names");
  const hdf5::Datatype name(H5Tget_member_type(type, static_cast<unsigned>(number)), index.path());
  const std::size_t bytes = H5Tget_size(name.get());
  require(H5Tget_class(name.get()) == H5T_STRING && H5Tis_variable_str(name.get()) == 0 && bytes > 0 &&
              bytes <= kMaxNameBytes,
          index.path(), "its names are no strings of fixed length");
  return bytes;
}

BlobEntry to_entry(const std::byte* at, std::size_t name_bytes) {
  BlobIndexRow row{};
  std::memcpy(&row, at, sizeof(row));
  const auto* name = reinterpret_cast<const char*>(at + sizeof(row));
  return {.name = std::string(name, strnlen(name, name_bytes)),
          .rank = row.rank,
          .codec = static_cast<Codec>(row.codec),
          .offset = row.offset,
          .stored_bytes = row.stored_bytes,
          .bytes = row.bytes,
          .digest = {.low = row.checksum_low, .high = row.checksum_high}};
}

void add_blobs(Structure& structure, const ContiguousDataset& index, const ContiguousDataset& bytes) {
  require(index.shape().size() == 1 && bytes.shape().size() == 1 &&
              bytes.bytes() == static_cast<std::uint64_t>(bytes.shape()[0]),
          index.path(), "it and its bytes are no lists");
  const std::size_t name_bytes = index_name_bytes(index);
  const std::size_t stride = sizeof(BlobIndexRow) + name_bytes;
  const auto count = static_cast<std::size_t>(index.shape()[0]);
  std::vector<std::byte> rows(count * stride);
  hdf5::check(
      H5Dread(index.id(), blob_index_type(name_bytes).get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, rows.data()),
      "read the blob index");
  for (std::size_t i = 0; i < count; ++i) {
    BlobEntry entry = to_entry(rows.data() + i * stride, name_bytes);
    require(entry.codec == Codec::raw || entry.codec == Codec::zstd, index.path(),
            fmt::format("blob \"{}\" has unknown codec {}", entry.name, static_cast<int>(entry.codec)));
    require(entry.rank >= -1 && entry.stored_bytes <= bytes.bytes() &&
                entry.offset <= bytes.bytes() - entry.stored_bytes &&
                entry.bytes / kMaxCompression <= entry.stored_bytes,
            index.path(), fmt::format("blob \"{}\" is not within the blobs' bytes", entry.name));
    structure.blobs.push_back(std::move(entry));
  }
  structure.blob_offset = bytes.offset();
}

void sort_by_name(Structure& structure) {
  std::vector<std::size_t> order(structure.tensors.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(structure.tensors[i].name); });
  Structure sorted;
  for (const std::size_t i : order) {
    require(sorted.tensors.empty() || sorted.tensors.back().name != structure.tensors[i].name,
            structure.tensors[i].name, "there are two tensors of this name");
    sorted.tensors.push_back(std::move(structure.tensors[i]));
    sorted.places.push_back(structure.places[i]);
  }
  structure.tensors = std::move(sorted.tensors);
  structure.places = std::move(sorted.places);
}

Structure read_open_file(const hdf5::File& file, std::uint64_t hdf5_end) {
  Structure structure;
  const auto open = [&](const std::string& path) {
    return ContiguousDataset({H5Dopen2(file.get(), path.c_str(), H5P_DEFAULT), path}, path, hdf5_end);
  };
  bool has_blobs = false;
  for (const std::string& path : list_objects(file)) {
    has_blobs |= path == kBlobIndexPath;
    std::string name = tensor_name(path);
    if (name.empty()) continue;
    const hdf5::Object object(H5Oopen(file.get(), path.c_str(), H5P_DEFAULT), path);
    if (H5Iget_type(object.get()) == H5I_DATASET) add_tensor(structure, open(path), std::move(name));
  }
  if (has_blobs) add_blobs(structure, open(std::string(kBlobIndexPath)), open(std::string(kBlobBytesPath)));
  sort_by_name(structure);
  return structure;
}

}  // namespace

Structure read_structure(const std::string& path, std::uint64_t hdf5_end) {
  const auto guard = hdf5::lock();
  try {
    return read_open_file(hdf5::open_file(path), hdf5_end);
  } catch (const Error& error) {
    // What HDF5 cannot do with bytes that are known to be good says nothing about them.
    const ErrorCode code = error.code() == ErrorCode::io ? ErrorCode::io : ErrorCode::corrupt;
    throw Error(code, fmt::format("read {}: {}", path, error.what()));
  }
}

}  // namespace rota::checkpoint
