#include "resume/stream_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "rota/cereal.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

// Adds a rank's part to those of the ranks before it.
void add_part(const TensorPart& part, std::string& all) {
  if (!part.has_rows) all += part.data;
  const auto width = static_cast<std::size_t>(part.row_bytes());
  for (std::size_t i = 0; i < part.rows.size(); ++i) {
    const std::size_t begin = static_cast<std::size_t>(part.rows[i]) * width;
    all.resize(std::max(all.size(), begin + width));
    part.data.copy(all.data() + begin, width, i * width);
  }
}

OrderedJson as_json(const std::string& data, std::int64_t columns) {
  if (columns == 0) return to_base64(data);
  OrderedJson rows = OrderedJson::array();
  std::vector<std::int64_t> row(static_cast<std::size_t>(columns));
  const std::size_t bytes = row.size() * sizeof(std::int64_t);
  for (std::size_t at = 0; at < data.size(); at += bytes) {
    std::memcpy(row.data(), data.data() + at, bytes);
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

OrderedJson new_stream_state(std::string_view kind, const StreamLoader& loader) {
  const StreamFacts& facts = loader.impl().facts();
  const auto& [position, epoch_began] = loader.impl().run();
  const std::int64_t epochs = loader.options().epochs;
  OrderedJson json = new_state(kind);
  json["source"] = {{"dataset", to_string(loader.fingerprint())},
                    {"shards", facts.shards},
                    {"cursor_numbers", facts.cursor_numbers}};
  json["position"] = {{"epoch", position.epoch}, {"step", position.step}, {"epoch_began", epoch_began}};
  json["run"] = {{"world_size", loader.world().size},
                 {"global_batch_size", loader.options().global_batch_size},
                 {"epochs", epochs == kEndless ? "endless" : std::to_string(epochs)}};
  return json;
}

void save(const StreamParts& parts, Snapshot& snapshot, std::string_view name) {
  for (const TensorPart& part : parts.tensors) {
    const std::string tensor = part_of_loader(name, part.name);
    const DType dtype = part.columns == 0 ? DType::uint8 : DType::int64;
    std::vector<std::int64_t> row_shape;
    if (part.columns > 0) row_shape.push_back(part.columns);
    const auto bytes = std::as_bytes(std::span(part.data));
    std::vector<std::byte> data(bytes.begin(), bytes.end());
    if (part.has_rows) {
      std::vector<RowRange> ranges;
      for (const std::int64_t row : part.rows) ranges.push_back({.first = row, .count = 1});
      snapshot.tensor(tensor, dtype, row_shape, ranges, std::move(data));
    } else {
      snapshot.tensor(tensor, dtype, row_shape, std::ssize(part.data) / part.row_bytes(), std::move(data));
    }
  }
  snapshot.blob(part_of_loader(name, kState), parts.head);
}

std::string gather_text(const StreamLoader& loader, const std::function<StreamParts()>& make) {
  std::vector<StreamParts> ranks;
  for (const std::string& parts : loader.impl().gather([&] { return to_blob(make()); })) {
    ranks.push_back(from_blob<StreamParts>(parts));
  }
  auto json = OrderedJson::parse(ranks.front().head);
  for (std::size_t t = 0; t < ranks.front().tensors.size(); ++t) {
    const TensorPart& tensor = ranks.front().tensors[t];
    std::string all;
    for (const StreamParts& parts : ranks) add_part(parts.tensors[t], all);
    json["tensors"][tensor.name] = as_json(all, tensor.columns);
  }
  return sealed(std::move(json));
}

StreamHead head_of(const SavedState& saved) {
  const JsonObject source = saved.object().object("source");
  const JsonObject position = saved.object().object("position");
  const JsonObject run = saved.object().object("run");
  static_cast<void>(run.number("global_batch_size"));  // which, with the epochs, are for people
  static_cast<void>(run.text("epochs"));
  const StreamHead head{
      .shards = source.number("shards"),
      .cursor_numbers = source.number("cursor_numbers"),
      .run = {.position = {.epoch = position.number("epoch"), .step = position.number("step")},
              .epoch_began = position.number("epoch_began")},
      .world_size = run.number("world_size")};
  // Steps are agreed on by 2 epoch + 1.
  const bool is_sound = head.run.position.epoch < kMaxCount / 2 &&
                        head.run.epoch_began <= head.run.position.step && head.shards >= 1 &&
                        head.cursor_numbers >= 1 && head.world_size >= 1 && head.world_size <= INT_MAX;
  if (!is_sound) {
    saved.fail(fmt::format(
        "it cannot be at epoch {}, begun at step {}, and step {} of {} shards in a world of {}",
        head.run.position.epoch, head.run.epoch_began, head.run.position.step, head.shards, head.world_size));
  }
  return head;
}

void require_same_source(const SavedState& saved, const StreamLoader& loader) {
  const JsonObject then = saved.object().object("source");
  const StreamFacts& now = loader.impl().facts();
  saved.require_same("the number of shards", then.number("shards"), now.shards);
  saved.require_same("the number of a cursor's numbers", then.number("cursor_numbers"), now.cursor_numbers);
  saved.require_same("the dataset's fingerprint", then.text("dataset"), to_string(loader.fingerprint()));
}

std::string describe_stream(std::string_view kind, const Checkpoint& checkpoint, std::string_view name) {
  const SavedState saved(kind, checkpoint, name);
  const StreamHead head = head_of(saved);
  const JsonObject run = saved.object().object("run");
  const std::string text = fmt::format(
      "{} shards with fingerprint {}, batch {}, {} epochs, at epoch {}, step {}, in a world of {}",
      head.shards, saved.object().object("source").text("dataset"), run.number("global_batch_size"),
      run.text("epochs"), head.run.position.epoch, head.run.position.step, head.world_size);
  if (kind != kDispatchKind) return text;
  return fmt::format("{}; {} items of the epoch delivered, {} read and pending", text,
                     saved.object().number("delivered"),
                     checkpoint.tensor(part_of_loader(name, "pending")).rows());
}

}  // namespace rota::internal
