#include "cli/inspect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "cli/text_table.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"
#include "rota/resume.hpp"

namespace rota::cli {
namespace {

using tracing::grouped;
using tracing::TextTable;

constexpr std::string_view kLoaderPrefix = "loader/";
constexpr std::string_view kCursorsSuffix = "/cursors";

std::string info_text(const CheckpointInfo& info) {
  std::string text = fmt::format("{}: a good checkpoint, format {}, {} bytes\n", info.path.string(),
                                 info.format_version, grouped(info.bytes));
  text += fmt::format("  serial    {}{}\n", info.serial,
                      info.parent < 0 ? "" : fmt::format(" (after {})", info.parent));
  text += fmt::format("  step      {}\n", grouped(info.step));
  text += fmt::format("  saved by  {} rank{}\n", info.world_size, info.world_size == 1 ? "" : "s");
  text += fmt::format("  run       {}\n", info.run_id);
  return text;
}

std::string tensor_table(const Checkpoint& checkpoint) {
  if (checkpoint.tensors().empty()) return "";
  TextTable table({"tensor", "type", "shape"}, 3);
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    table.add({tensor.name, std::string(to_string(tensor.dtype)),
               fmt::format("[{}]", fmt::join(tensor.shape, ", "))});
  }
  return "\n" + table.text();
}

std::string blob_table(const Checkpoint& checkpoint) {
  if (checkpoint.blobs().empty()) return "";
  TextTable table({"blob", "owner", "bytes"}, 2);
  for (const BlobInfo& blob : checkpoint.blobs()) {
    table.add(
        {blob.name, blob.rank < 0 ? "the job" : fmt::format("rank {}", blob.rank), grouped(blob.bytes)});
  }
  return "\n" + table.text();
}

bool is_cursors(const TensorInfo& tensor) {
  const std::string_view name = tensor.name;
  return name.starts_with(kLoaderPrefix) && name.ends_with(kCursorsSuffix) && tensor.dtype == DType::int64 &&
         tensor.shape.size() == 2 && tensor.shape[0] > 0 && tensor.shape[1] == 2;
}

std::string range(std::int64_t low, std::int64_t high) {
  return low == high ? grouped(low) : fmt::format("{} to {}", grouped(low), grouped(high));
}

std::string state_text(const Checkpoint& checkpoint, std::string_view name) {
  try {
    return fmt::format("  {}\n", describe_loader(checkpoint, name));
  } catch (const Error& error) {  // cursors and state may be somebody else's
    return fmt::format("  {}\n", error.what());
  }
}

// Shards of an epoch that is over stand in the next one, so that positions there add up to what is consumed.
std::string loader_text(const Checkpoint& checkpoint, const TensorInfo& tensor) {
  const auto cursors = checkpoint.read<std::int64_t>(tensor.name);
  std::int64_t low_epoch = cursors[0];
  std::int64_t high_epoch = cursors[0];
  std::int64_t low_position = cursors[1];
  std::int64_t high_position = cursors[1];
  std::int64_t consumed = 0;
  for (std::size_t i = 0; i < cursors.size(); i += 2) {
    low_epoch = std::min(low_epoch, cursors[i]);
    high_epoch = std::max(high_epoch, cursors[i]);
    low_position = std::min(low_position, cursors[i + 1]);
    high_position = std::max(high_position, cursors[i + 1]);
    consumed += cursors[i + 1];
  }
  std::string_view name = tensor.name;
  name.remove_prefix(kLoaderPrefix.size());
  name.remove_suffix(kCursorsSuffix.size());
  const auto place = fmt::format(
      "\nloader \"{}\" is in epoch {}, with {} samples of it consumed: {} shards at position {}\n", name,
      range(low_epoch, high_epoch), grouped(consumed), grouped(tensor.rows()),
      range(low_position, high_position));
  return place + state_text(checkpoint, name);
}

}  // namespace

std::string inspect(const std::filesystem::path& file) {
  if (std::filesystem::is_directory(file)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("inspect {}: it is a directory; name one of its checkpoints, or use rota verify",
                            file.string()));
  }
  const Checkpoint checkpoint = open_checkpoint(file);
  std::string text = info_text(checkpoint.info()) + tensor_table(checkpoint) + blob_table(checkpoint);
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    if (is_cursors(tensor)) text += loader_text(checkpoint, tensor);
  }
  return text;
}

}  // namespace rota::cli
