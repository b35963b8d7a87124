#include "rota/transform.hpp"

#include "core/failure.hpp"
#include "loader/field_store.hpp"
#include "loader/made_rows.hpp"
#include "source/field_check.hpp"

namespace rota {

std::span<std::byte> SampleOutput::resize(std::size_t f, std::int64_t rows) {
  internal::require_ragged(fields_, f);
  if (rows_ == nullptr) {
    throw internal::failure(ErrorCode::callback,
                            "resize field \"{}\" of a sample: a transform without fields of its own changes "
                            "the source's in place; give the fields of the transform",
                            fields_[f].name);
  }
  return bytes_[f] = rows_->resize(f, rows);
}

std::span<const Field> BatchOutput::fields() const noexcept { return store_.fields(); }

std::span<std::byte> BatchOutput::bytes(std::size_t f) const { return store_.tensor(f).bytes; }

std::span<std::byte> BatchOutput::resize(std::size_t f, std::int64_t rows) {
  return resize(f, std::vector<std::int64_t>(store_.samples(), rows));
}

std::span<std::byte> BatchOutput::resize(std::size_t f, std::span<const std::int64_t> rows) {
  store_.open_rows(f, rows);
  return bytes(f);
}

}  // namespace rota
