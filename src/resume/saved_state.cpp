#include "resume/saved_state.hpp"

#include <limits>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kTensors = "tensors";

std::string task_of(std::string_view kind, const std::string& from) {
  const bool is_stream = kind == kStreamKind || kind == kDispatchKind;
  return fmt::format("restore a {}loader from {}", is_stream ? "stream " : "", from);
}

}  // namespace

std::string part_of_loader(std::string_view name, std::string_view part) {
  return fmt::format("loader/{}/{}", name, part);
}

SavedState::SavedState(std::string_view kind, const Checkpoint& checkpoint, std::string_view name)
    : StateText(task_of(kind, checkpoint.info().path.string()), kind,
                checkpoint.blob(part_of_loader(name, kState))),
      checkpoint_(&checkpoint),
      name_(name),
      kind_(kind) {}

SavedState::SavedState(std::string_view kind, std::string_view text)
    : StateText(task_of(kind, "a text"), kind, text), kind_(kind) {}

std::string_view SavedState::rule() const noexcept {
  return kind_ == kLoaderKind ? "a run can only go on in the order that it began"
                              : "a run can only go on with the data and the transforms that it began with";
}

void SavedState::require(bool holds, std::string_view tensor, std::string_view why_not) const {
  if (!holds) fail(fmt::format("its tensor \"{}\" {}", part_of_loader(name_, tensor), why_not));
}

bool SavedState::has(std::string_view tensor) const {
  return checkpoint_ != nullptr && checkpoint_->has_tensor(part_of_loader(name_, tensor));
}

std::string SavedState::checked(std::string_view tensor, DType dtype, std::int64_t columns) const {
  std::string name = part_of_loader(name_, tensor);
  require(checkpoint_->has_tensor(name), tensor, "is missing");
  const TensorInfo& info = checkpoint_->tensor(name);
  const std::vector<std::int64_t> row_shape(columns > 0 ? 1 : 0, columns);
  const std::string rows = columns > 0 ? fmt::format("[rows, {}]", columns) : "[rows]";
  require(info.dtype == dtype && std::ranges::equal(std::span(info.shape).subspan(1), row_shape), tensor,
          fmt::format("is not {} {}", to_string(dtype), rows));
  return name;
}

std::vector<std::int64_t> SavedState::numbers(std::string_view tensor, std::int64_t columns) const {
  if (checkpoint_ != nullptr) return checkpoint_->read<std::int64_t>(checked(tensor, DType::int64, columns));
  using Limits = std::numeric_limits<std::int64_t>;
  const JsonObject tensors = object().object(kTensors);
  std::vector<std::int64_t> numbers;
  for (const Json& row : tensors.array(tensor)) {
    if (!row.is_array() || static_cast<std::int64_t>(row.size()) != columns)
      tensors.fail(tensor, fmt::format("is not [rows, {}]", columns));
    for (const Json& value : row)
      numbers.push_back(tensors.number_in(value, tensor, Limits::min(), Limits::max()));
  }
  return numbers;
}

const std::string& SavedState::decoded(std::string_view tensor) const {
  const auto known = decoded_.find(tensor);
  if (known != decoded_.end()) return known->second;
  return decoded_.emplace(tensor, from_base64(object().object(kTensors), tensor)).first->second;
}

std::int64_t SavedState::bytes(std::string_view tensor) const {
  if (checkpoint_ == nullptr) return std::ssize(decoded(tensor));
  return checkpoint_->tensor(checked(tensor, DType::uint8, 0)).rows();
}

void SavedState::read(std::string_view tensor, std::int64_t first, std::span<std::byte> out) const {
  if (checkpoint_ != nullptr) {
    return checkpoint_->read(part_of_loader(name_, tensor), {.first = first, .count = std::ssize(out)}, out);
  }
  const auto bytes = std::as_bytes(std::span(decoded(tensor)));
  std::copy_n(bytes.begin() + first, out.size(), out.begin());
}

}  // namespace rota::internal
