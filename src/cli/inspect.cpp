// `rota inspect`: what a checkpoint file holds.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "core/failure.hpp"
#include "files/path.hpp"
#include "resume/saved_state.hpp"
#include "rota/checkpoint.hpp"
#include "rota/resume.hpp"

namespace rota::cli {
namespace {

std::string info_text(const CheckpointInfo& info) {
  return fmt::format(
      "{}: a good checkpoint, format {}, {} bytes\n  serial    {}{}\n  step      {}\n  saved by  {}\n  run   "
      "    {}\n",
      shown(info.path.native()), info.format_version, grouped(info.bytes), info.serial,
      info.parent < 0 ? "" : fmt::format(" (after {})", info.parent), grouped(info.step),
      counted(info.world_size, "rank"), info.run_id);
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

// The state and the cursors may be somebody else's, who has used a loader's names.
std::string loader_text(const Checkpoint& checkpoint, std::string_view name) {
  try {
    const std::string kind = internal::kind_of_loader(checkpoint, name);
    return fmt::format("\nloader \"{}\" is a {}\n  {}\n", name, kind, describe_loader(checkpoint, name));
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
    throw internal::failure(ErrorCode::invalid_argument,
                            "inspect {}: it is a directory; name one of its checkpoints, or use rota verify",
                            file.string());
  }
  const Checkpoint checkpoint = open_checkpoint(file);
  return info_text(checkpoint.info()) + tensor_table(checkpoint) + blob_table(checkpoint) +
         loader_texts(checkpoint);
}

}  // namespace

void add_inspect(CLI::App& app, int& code) {
  const auto file = std::make_shared<std::filesystem::path>();
  CLI::App& command = *app.add_subcommand("inspect", "Verifies a checkpoint and lists what it holds.");
  command.add_option("FILE", *file, "a checkpoint, checkpoint-<serial>.h5")->required();
  command.callback([file, &code] {
    fmt::print("{}", inspect(internal::path_on_disk(*file)));
    code = 0;
  });
}

}  // namespace rota::cli
