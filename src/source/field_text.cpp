#include "source/field_text.hpp"

#include <fmt/format.h>

namespace rota::internal {

std::string describe(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    text += fmt::format("{}\"{}\" {}", text.empty() ? "" : ", ", field.name, to_string(field.dtype));
    const char* rows = !field.ragged ? "" : field.shape.empty() ? "*" : "*, ";
    text += fmt::format("[{}{}]", rows, fmt::join(field.shape, ", "));
  }
  return text;
}

}  // namespace rota::internal
