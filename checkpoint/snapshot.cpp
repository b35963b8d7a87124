#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/failure.hpp"
#include "core/owned.hpp"
#include "rota/checkpoint.hpp"
#include "snapshot_data.hpp"

namespace rota {
namespace checkpoint {
namespace {

// HDF5's limit of 32 dimensions, of which rows are one.
constexpr std::size_t kMaxRowDimensions = 31;
constexpr const char* kTaken =
    "there is one of this name already; give each state a name of its own, such as \"train\" and \"valid\"";

[[noreturn]] void reject(std::string_view kind, std::string_view name, std::string_view why) {
  throw internal::failure(ErrorCode::invalid_argument, "add {} {:?} to a snapshot: {}", kind, name, why);
}

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '-';
}

bool is_component(std::string_view part) {
  return !part.empty() && part != "." && part != ".." && std::ranges::all_of(part, is_name_char);
}

void require_name(std::string_view kind, std::string_view name) {
  if (is_name(name)) return;
  reject(
      kind, name,
      fmt::format("a name is components of A-Z a-z 0-9 _ . - joined by \"/\", none of them \".\" or \"..\", "
                  "the first of them not \"{}\", which the file keeps for itself, at most {} bytes together",
                  kOwnGroup, kMaxNameBytes));
}

std::int64_t row_bytes_of(const LocalTensor& tensor) {
  if (tensor.row_shape.size() > kMaxRowDimensions) {
    reject("tensor", tensor.name, fmt::format("a row has at most {} dimensions", kMaxRowDimensions));
  }
  auto bytes = static_cast<std::int64_t>(size_of(tensor.dtype));
  if (bytes == 0) reject("tensor", tensor.name, "its type is none that there is");
  for (const std::int64_t length : tensor.row_shape) {
    bytes = length < 0 || bytes < 0 ? -1 : checked_product(bytes, length);
  }
  if (bytes < 0) {
    reject("tensor", tensor.name,
           fmt::format("row shape [{}] has a negative length, or is too large",
                       fmt::join(tensor.row_shape, ", ")));
  }
  return bytes;
}

// Drops empty ranges, joins neighbours, and counts their rows.
void settle_ranges(LocalTensor& tensor) {
  std::vector<RowRange> ranges;
  tensor.rows = 0;
  for (const RowRange& range : tensor.ranges) {
    std::int64_t end = 0;
    if (range.first < 0 || range.count < 0 || __builtin_add_overflow(range.first, range.count, &end)) {
      reject("tensor", tensor.name,
             fmt::format("{} rows from row {} on are no range", range.count, range.first));
    }
    if (__builtin_add_overflow(tensor.rows, range.count, &tensor.rows)) {
      reject("tensor", tensor.name, "its row ranges hold more rows than a number can say");
    }
    if (range.count == 0) continue;
    if (!ranges.empty() && ranges.back().first + ranges.back().count == range.first) {
      ranges.back().count += range.count;
    } else {
      ranges.push_back(range);
    }
  }
  tensor.ranges = std::move(ranges);
}

}  // namespace

bool is_name(std::string_view name) noexcept {
  if (name.size() > kMaxNameBytes || name.substr(0, name.find('/')) == kOwnGroup) return false;
  for (std::string_view rest = name;;) {
    const std::size_t slash = rest.find('/');
    if (!is_component(rest.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    rest.remove_prefix(slash + 1);
  }
}

std::int64_t checked_product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? -1 : product;
}

void SnapshotData::claim_tensor_name(const std::string& name) {
  require_name("tensor", name);
  for (std::size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    const std::string_view group(name.data(), slash);
    if (names_.contains(group)) {
      reject("tensor", name, fmt::format("\"{}\" is a tensor, and cannot be a group, too", group));
    }
  }
  const std::string as_group = name + "/";
  if (const auto inside = names_.lower_bound(as_group);
      inside != names_.end() && inside->starts_with(as_group)) {
    reject("tensor", name, fmt::format("it is the group of \"{}\", and cannot be a tensor, too", *inside));
  }
  if (!names_.insert(name).second) reject("tensor", name, kTaken);
}

void SnapshotData::add_tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
                              LocalTensor tensor) {
  tensor.name = name;
  tensor.dtype = dtype;
  tensor.row_shape = std::move(row_shape);
  tensor.row_bytes = row_bytes_of(tensor);
  if (tensor.has_ranges) settle_ranges(tensor);
  if (tensor.rows < 0) reject("tensor", tensor.name, fmt::format("it cannot have {} rows", tensor.rows));
  if (!tensor.owned.empty()) tensor.data = tensor.owned;
  const std::int64_t bytes = checked_product(tensor.rows, tensor.row_bytes);
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) != tensor.data.size()) {
    reject("tensor", tensor.name,
           fmt::format("{} rows of {} bytes each are not the {} bytes given", tensor.rows, tensor.row_bytes,
                       tensor.data.size()));
  }
  claim_tensor_name(tensor.name);
  tensors_.push_back(std::move(tensor));
}

std::span<const std::byte> Staging::copy(std::size_t index, std::span<const std::byte> bytes) {
  if (buffers_.size() <= index) buffers_.resize(index + 1);
  Buffer& buffer = buffers_[index];
  if (buffer.capacity < bytes.size()) {
    buffer = {};
    buffer = {.bytes = std::make_unique_for_overwrite<std::byte[]>(bytes.size()), .capacity = bytes.size()};
  }
  if (!bytes.empty()) std::memcpy(buffer.bytes.get(), bytes.data(), bytes.size());
  return {buffer.bytes.get(), bytes.size()};
}

void SnapshotData::copy_views(Staging& staging) {
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    LocalTensor& tensor = tensors_[t];
    if (tensor.owned.empty()) tensor.data = staging.copy(t, tensor.data);
  }
}

void SnapshotData::add(std::string_view kind, std::vector<LocalBlob>& blobs, std::string_view name,
                       std::string bytes) {
  require_name(kind, name);
  if (std::ranges::find(blobs, name, &LocalBlob::name) != blobs.end()) reject(kind, name, kTaken);
  blobs.push_back({.name = std::string(name), .bytes = std::move(bytes)});
}

}  // namespace checkpoint

Snapshot::Snapshot() : impl_(std::make_unique<Impl>()) {}
Snapshot::~Snapshot() = default;
Snapshot::Snapshot(Snapshot&&) noexcept = default;
Snapshot& Snapshot::operator=(Snapshot&&) noexcept = default;

Snapshot::Impl& Snapshot::impl() const { return internal::owned(impl_, "a snapshot"); }

void Snapshot::tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
                      std::int64_t rows, std::span<const std::byte> data) {
  impl().add_tensor(name, dtype, std::move(row_shape), {.rows = rows, .data = data});
}

void Snapshot::tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
                      std::span<const RowRange> rows, std::span<const std::byte> data) {
  impl().add_tensor(name, dtype, std::move(row_shape),
                    {.has_ranges = true, .ranges = {rows.begin(), rows.end()}, .data = data});
}

void Snapshot::tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
                      std::int64_t rows, std::vector<std::byte>&& data) {
  impl().add_tensor(name, dtype, std::move(row_shape), {.rows = rows, .owned = std::move(data)});
}

void Snapshot::tensor(std::string_view name, DType dtype, std::vector<std::int64_t> row_shape,
                      std::span<const RowRange> rows, std::vector<std::byte>&& data) {
  impl().add_tensor(name, dtype, std::move(row_shape),
                    {.has_ranges = true, .ranges = {rows.begin(), rows.end()}, .owned = std::move(data)});
}

void Snapshot::blob(std::string_view name, std::string bytes) { impl().add_blob(name, std::move(bytes)); }

void Snapshot::rank_blob(std::string_view name, std::string bytes) {
  impl().add_rank_blob(name, std::move(bytes));
}

void Snapshot::worker_blob(std::string_view name, int worker, int workers, std::string bytes) {
  impl().add_rank_blob(worker_blob_name(name, worker, workers), std::move(bytes));
}

void Snapshot::same(std::string_view name, std::string lines) { impl().add_same(name, std::move(lines)); }

std::string worker_blob_name(std::string_view name, int worker, int workers) {
  if (worker < 0 || worker >= workers) {
    throw internal::failure(ErrorCode::invalid_argument,
                            "name blob \"{}\" of a worker: there is no worker {} of {}", name, worker,
                            workers);
  }
  return fmt::format("{}/worker-{}-of-{}", name, worker, workers);
}

}  // namespace rota
