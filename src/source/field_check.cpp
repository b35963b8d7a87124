#include "source/field_check.hpp"

#include <fmt/format.h>

#include <set>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

// What is wrong with a field behind others of `before` bytes; empty where nothing is. Adds its own to them.
std::string fault_of(const Field& field, std::uint64_t& before) {
  std::uint64_t bytes = size_of(field.dtype);
  if (bytes == 0) return fmt::format("type number {} is none", static_cast<int>(field.dtype));
  bool is_empty = false;
  bool is_large = false;
  for (const std::int64_t extent : field.shape) {
    if (extent < 0) return fmt::format("an extent is {}; each must be 0 or more", extent);
    is_empty = is_empty || extent == 0;
    is_large = __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) || is_large;
  }
  if (is_empty) return {};
  if (is_large || bytes > std::uint64_t{kMaxTensorBytes} - before)
    return "a sample may have 2^50 bytes, all fields together";
  before += bytes;
  return {};
}

}  // namespace

std::string describe(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    text += fmt::format("{}\"{}\" {}", text.empty() ? "" : ", ", field.name, to_string(field.dtype));
    const char* rows = !field.ragged ? "" : field.shape.empty() ? "*" : "*, ";
    text += fmt::format("[{}{}]", rows, fmt::join(field.shape, ", "));
  }
  return text;
}

void check_fields(std::span<const Field> fields, std::string_view task, std::string_view whose,
                  ErrorCode code) {
  if (fields.size() > kMaxFields) {
    throw failure(code, "{}: {} has {} fields; there may be {}", task, whose, fields.size(), kMaxFields);
  }
  std::set<std::string_view> names;
  std::uint64_t bytes = 0;
  for (const Field& field : fields) {
    std::string fault = fault_of(field, bytes);
    if (!names.insert(field.name).second) fault = "another one has that name";
    if (fault.empty()) continue;
    throw failure(code, "{}: {} has a field {}: {}", task, whose, describe({field}), fault);
  }
}

void check_row_count(const Field& field, std::int64_t rows, std::int64_t before) {
  const std::size_t row_bytes = field.row_bytes();
  if (rows >= 0 && rows <= most_rows(row_bytes) - before) return;
  if (rows >= 0 && rows <= most_rows(row_bytes)) {
    throw failure(ErrorCode::invalid_argument,
                  "make a batch: field \"{}\" would have more than 2^50 bytes; lower global_batch_size",
                  field.name);
  }
  throw failure(ErrorCode::callback,
                "size field \"{}\": a sample is said to have {} rows of {} bytes; that cannot be", field.name,
                rows, row_bytes);
}

void require_ragged(std::span<const Field> fields, std::size_t f) {
  if (f >= fields.size()) refuse_field(f, fields.size());
  if (fields[f].ragged) return;
  throw failure(ErrorCode::callback, "resize field \"{}\": it is of fixed shape; declare it ragged",
                fields[f].name);
}

std::int64_t fixed_bytes(std::span<const Field> fields, std::size_t samples) {
  std::size_t bytes = 0;
  for (const Field& field : fields) bytes += field.ragged ? 0 : field.row_bytes();
  if (samples <= static_cast<std::uint64_t>(most_rows(bytes)))
    return static_cast<std::int64_t>(bytes * samples);
  throw failure(ErrorCode::invalid_argument,
                "make a batch: {} samples of {} bytes are more than 2^50 bytes; lower global_batch_size",
                samples, bytes);
}

std::vector<std::int64_t> offsets_of(const BatchView& out, std::size_t f, std::size_t row_bytes) {
  std::vector<std::int64_t> offsets(1, 0);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t rows = row_bytes == 0 ? 0 : out.bytes(f, i).size() / row_bytes;
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(rows));
  }
  return offsets;
}

}  // namespace rota::internal
