#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "catalog/serialize.hpp"
#include "formats/formats.hpp"
#include "formats/npy_header.hpp"
#include "formats/records.hpp"
#include "rota/error.hpp"
#include "source/unpack_stored.hpp"

namespace rota::internal {
namespace {

std::vector<NpyHeader> read_headers(const FileList& files) {
  const auto index = index_files(files, "npy arrays", [](DatasetFile& file) {
    file.read_on();
    std::uint64_t at = 0;
    return serialize(read_npy_header(file, 0, file.bytes(), [&](std::span<std::byte> to) {
      file.read(at, to);
      at += to.size();
    }));
  });
  std::vector<NpyHeader> headers(files.size());
  for (std::size_t i = 0; i < headers.size(); ++i) headers[i] = deserialize<NpyHeader>((*index)[i]);
  return headers;
}

void require_alike(const FileList& files, const std::vector<NpyHeader>& headers) {
  for (std::size_t i = 1; i < headers.size(); ++i) {
    if (are_alike(headers[i], headers[0])) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("open {}: the array is {}, and {} in {}{}; only leading extents may differ",
                            files.path(i), describe(headers[i]), describe(headers[0]), files.path(0),
                            headers[i].type == headers[0].type ? "" : ", stored otherwise"));
  }
}

std::shared_ptr<const Source> make_rows(FileList files, const std::vector<NpyHeader>& headers) {
  StridedLayout layout{
      .format = "npy", .field = headers[0].type.as_stored("data", row_shape(headers[0])), .files = {}};
  layout.stride_bytes = layout.field.row_bytes();
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const NpyHeader& header = headers[i];
    if (header.shape.empty() || header.has_columns()) {
      throw Error(
          ErrorCode::unsupported,
          fmt::format(
              "open {}: the array {}; set the option file_is_sample, or write it again", files.path(i),
              header.shape.empty() ? "has no rows" : "is in Fortran order, in which rows are scattered"));
    }
    layout.files.push_back({.first = header.data_at, .samples = header.shape[0]});
  }
  return make_strided_source(std::move(files), std::move(layout));
}

/// Each file is one record.
class NpyFiles final : public RecordFormat {
 public:
  explicit NpyFiles(std::vector<NpyHeader> headers) : headers_(std::move(headers)) {
    const NpyHeader& first = headers_[0];
    const bool is_ragged = std::any_of(headers_.begin(), headers_.end(),
                                       [&](const auto& other) { return other.shape != first.shape; });
    fields_ = {first.type.as_stored("data", is_ragged ? row_shape(first) : first.shape, is_ragged)};
  }

  [[nodiscard]] std::string_view name() const override { return "npy files"; }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] RecordIndex index(const DatasetFile& file) const override {
    const NpyHeader& header = headers_[file.number()];
    return {.samples = 1, .ranges = {{.offset = header.data_at, .bytes = header.data_bytes()}}, .keys = {}};
  }
  [[nodiscard]] bool has_plain_ranges(const DatasetFile& file) const override {
    return !headers_[file.number()].has_columns();
  }
  void read(const DatasetFile& file, std::size_t /*field*/, const ByteRange& range,
            std::span<std::byte> to) const override {
    const NpyHeader& header = headers_[file.number()];
    if (!header.has_columns()) return file.read(range.offset, to);
    std::vector<std::byte> columns(to.size());
    file.read(range.offset, columns);
    to_c_order(header, columns, to);
  }

 private:
  std::vector<NpyHeader> headers_;
  std::vector<Field> fields_;
};

}  // namespace

bool is_npy(const FileList& files, std::size_t i) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  std::array<char, kMagic.size()> found{};
  (void)files.open(i).read_up_to_end(0, std::as_writable_bytes(std::span(found)));
  return std::string_view(found.data(), found.size()) == kMagic;
}

std::shared_ptr<const Source> open_as(const Catalog& catalog, const NpyOptions& options) {
  FileList files = files_of(catalog).with_sizes();
  std::vector<NpyHeader> headers = read_headers(files);
  require_alike(files, headers);
  const std::vector<StoredType> types{headers[0].type};
  auto stored =
      !options.file_is_sample
          ? make_rows(std::move(files), headers)
          : make_record_source(std::move(files), std::make_unique<NpyFiles>(std::move(headers)), "npy files");
  return unpack_stored(std::move(stored), types, "open NPY files");
}

}  // namespace rota::internal
