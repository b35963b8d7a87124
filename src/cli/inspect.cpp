// `rota inspect`: what a checkpoint file holds.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "resume/saved_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/error.hpp"
#include "rota/resume.hpp"

namespace rota::cli {
namespace {

std::string info_text(const CheckpointInfo& info) {
  std::string text = fmt::format("{}: a good checkpoint, format {}, {} bytes\n", shown(info.path.native()),
                                 info.format_version, grouped(info.bytes));
  text += fmt::format("  serial    {}{}\n", info.serial,
                      info.parent < 0 ? "" : fmt::format(" (after {})", info.parent));
  text += fmt::format("  step      {}\n", grouped(info.step));
  text += fmt::format("  saved by  {}\n", counted(info.world_size, "rank"));
  text += fmt::format("  run       {}\n", info.run_id);
  return text;
}

std::string tensor_table(const Checkpoint& checkpoint) {
  if (checkpoint.tensors().empty()) return "";
  std::vector<std::vector<std::string>> table{{"tensor", "type", "shape"}};
  for (const TensorInfo& tensor : checkpoint.tensors()) {
    table.push_back({tensor.name, std::string(to_string(tensor.dtype)),
                     fmt::format("[{}]", fmt::join(tensor.shape, ", "))});
  }
  return "\n" + table_text(table, 3);
}

std::string blob_table(const Checkpoint& checkpoint) {
  if (checkpoint.blobs().empty()) return "";
  std::vector<std::vector<std::string>> table{{"blob", "owner", "bytes"}};
  for (const BlobInfo& blob : checkpoint.blobs()) {
    table.push_back(
        {blob.name, blob.rank < 0 ? "the job" : fmt::format("rank {}", blob.rank), grouped(blob.bytes)});
  }
  return "\n" + table_text(table, 2);
}

std::string range(const std::vector<std::int64_t>& values) {
  const auto [low, high] = std::ranges::minmax(values);
  return low == high ? grouped(low) : fmt::format("{} to {}", grouped(low), grouped(high));
}

// Shards of an epoch that is over stand in the next one, so that positions there add up to what is consumed.
std::string progress_text(const Checkpoint& checkpoint, std::string_view name) {
  const std::string tensor = internal::part_of_loader(name, "cursors");
  const auto cursors = checkpoint.read<std::int64_t>(tensor);
  const auto& shape = checkpoint.tensor(tensor).shape;
  if (shape[0] == 0 || shape != std::vector<std::int64_t>{shape[0], 2}) return "";
  std::vector<std::int64_t> epochs;
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < cursors.size(); i += 2) {
    epochs.push_back(cursors[i]);
    positions.push_back(cursors[i + 1]);
  }
  return fmt::format(" in epoch {}, with {} samples of it consumed: {} shards at position {}", range(epochs),
                     grouped(std::accumulate(positions.begin(), positions.end(), std::int64_t{0})),
                     grouped(shape[0]), range(positions));
}

// The state and the cursors may be somebody else's, who has used a loader's names.
std::string loader_text(const Checkpoint& checkpoint, std::string_view name) {
  try {
    const std::string kind = internal::kind_of_loader(checkpoint, name);
    const std::string progress = kind == internal::kLoaderKind ? progress_text(checkpoint, name) : "";
    return fmt::format("\nloader \"{}\" is a {}{}\n  {}\n", name, kind, progress,
                       describe_loader(checkpoint, name));
  } catch (const Error& error) {
    return fmt::format("\nloader \"{}\" cannot be read\n  {}\n", name, error.what());
  }
}

std::string loader_texts(const Checkpoint& checkpoint) {
  std::string text;
  for (const BlobInfo& blob : checkpoint.blobs()) {
    if (const auto name = loader_of(blob); !name.empty()) text += loader_text(checkpoint, name);
  }
  return text;
}

std::string inspect(const std::filesystem::path& file) {
  std::error_code unknown;  // what it is; to open it says more
  if (std::filesystem::is_directory(file, unknown)) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("inspect {}: it is a directory; name one of its checkpoints, or use rota verify",
                            file.string()));
  }
  const Checkpoint checkpoint = open_checkpoint(file);
  return info_text(checkpoint.info()) + tensor_table(checkpoint) + blob_table(checkpoint) +
         loader_texts(checkpoint);
}

}  // namespace

Verb add_inspect(CLI::App& app) {
  const auto file = std::make_shared<std::filesystem::path>();
  CLI::App& command = *app.add_subcommand("inspect", "Verifies a checkpoint and lists what it holds.");
  command.add_option("FILE", *file, "a checkpoint, checkpoint-<serial>.h5")->required();
  return {.command = &command, .run = [file] {
            fmt::print("{}", inspect(require_on_disk(*file)));
            return 0;
          }};
}

}  // namespace rota::cli
