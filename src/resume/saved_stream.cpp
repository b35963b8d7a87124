#include "resume/saved_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::string_view kTensors = "tensors";

std::string last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }

}  // namespace

StreamHead head_of(const StreamLoader& loader) {
  const std::int64_t epochs = loader.options().epochs;
  return {.dataset = to_string(loader.fingerprint()),
          .shards = StreamState::facts(loader).shards,
          .cursor_numbers = StreamState::facts(loader).cursor_numbers,
          .run = StreamState::run(loader),
          .world_size = loader.world().size,
          .global_batch_size = loader.options().global_batch_size,
          .epochs = epochs == kEndless ? "endless" : std::to_string(epochs)};
}

std::string describe(const StreamHead& head) {
  return fmt::format(
      "{} shards with fingerprint {}, batch {}, {} epochs, at epoch {}, step {}, in a world of {}",
      head.shards, head.dataset, head.global_batch_size, head.epochs, head.run.position.epoch,
      head.run.position.step, head.world_size);
}

OrderedJson to_json(std::string_view kind, const StreamHead& head) {
  OrderedJson json = new_state(kind);
  json["source"] = {
      {"dataset", head.dataset}, {"shards", head.shards}, {"cursor_numbers", head.cursor_numbers}};
  json["position"] = {{"epoch", head.run.position.epoch},
                      {"step", head.run.position.step},
                      {"epoch_began", head.run.epoch_began}};
  json["run"] = {{"world_size", head.world_size},
                 {"global_batch_size", head.global_batch_size},
                 {"epochs", head.epochs}};
  return json;
}

OrderedJson to_json(std::span<const std::int64_t> numbers, std::size_t columns) {
  OrderedJson rows = OrderedJson::array();
  for (std::size_t at = 0; at < numbers.size(); at += columns) rows.push_back(numbers.subspan(at, columns));
  return rows;
}

SavedStream::SavedStream(std::string_view kind, std::string_view state, std::string from,
                         std::string_view saved)
    : refusal_{.what = "a stream loader",
               .from = std::move(from),
               .saved = saved,
               .rule = "a run can only go on with the data and the transforms that it began with"},
      json_(parse_state(state, kind, refusal_)) {}

StreamHead SavedStream::head() const {
  const StateObject source = state().object("source");
  const StateObject position = state().object("position");
  const StateObject run = state().object("run");
  StreamHead head{.dataset = source.text("dataset"),
                  .shards = source.number("shards"),
                  .cursor_numbers = source.number("cursor_numbers"),
                  .run = {.position = {.epoch = position.number("epoch"), .step = position.number("step")},
                          .epoch_began = position.number("epoch_began")},
                  .world_size = run.number("world_size"),
                  .global_batch_size = run.number("global_batch_size"),
                  .epochs = run.text("epochs")};
  // Steps are agreed on by 2 epoch + 1.
  const bool is_sound = head.run.position.epoch < kMaxCount / 2 &&
                        head.run.epoch_began <= head.run.position.step && head.shards >= 1 &&
                        head.cursor_numbers >= 1 && head.world_size >= 1 && head.world_size <= INT_MAX;
  if (!is_sound) {
    refusal_.fail(fmt::format(
        "it cannot be at epoch {}, begun at step {}, and step {} of {} shards in a world of {}",
        head.run.position.epoch, head.run.epoch_began, head.run.position.step, head.shards, head.world_size));
  }
  return head;
}

void SavedStream::require_same_source(const StreamLoader& loader) const {
  const StreamHead then = head();
  const StreamHead now = head_of(loader);
  refusal_.require_same("the number of shards", then.shards, now.shards);
  refusal_.require_same("the number of a cursor's numbers", then.cursor_numbers, now.cursor_numbers);
  refusal_.require_same("the dataset's fingerprint", then.dataset, now.dataset);
}

StreamInCheckpoint::StreamInCheckpoint(std::string_view kind, const Checkpoint& checkpoint,
                                       const std::string& state)
    : SavedStream(kind, checkpoint.blob(state), checkpoint.info().path.string(), "the checkpoint"),
      checkpoint_(checkpoint) {}

std::vector<std::int64_t> StreamInCheckpoint::rows(const std::string& tensor, std::size_t columns) const {
  const TensorInfo& info = checkpoint_.tensor(tensor);
  if (info.dtype != DType::int64 || info.shape.size() != 2 ||
      info.shape[1] != static_cast<std::int64_t>(columns)) {
    refusal().fail(fmt::format("{} is not int64 [rows, {}]", tensor, columns));
  }
  return checkpoint_.read<std::int64_t>(tensor);
}

std::int64_t StreamInCheckpoint::bytes(const std::string& tensor) const {
  const TensorInfo& info = checkpoint_.tensor(tensor);
  if (info.dtype != DType::uint8 || info.shape.size() != 1) {
    refusal().fail(fmt::format("{} is not uint8 [bytes]", tensor));
  }
  return info.rows();
}

void StreamInCheckpoint::read(const std::string& tensor, std::int64_t first, std::span<std::byte> out) const {
  checkpoint_.read(tensor, {.first = first, .count = std::ssize(out)}, out);
}

StreamInText::StreamInText(std::string_view kind, std::string_view text)
    : SavedStream(kind, text, "a text", "the text") {
  require_digest(json(), refusal());
}

std::vector<std::int64_t> StreamInText::rows(const std::string& tensor, std::size_t columns) const {
  return state().object(kTensors).rows(last_part(tensor), columns);
}

const std::string& StreamInText::decoded(const std::string& tensor) const {
  const auto known = decoded_.find(tensor);
  if (known != decoded_.end()) return known->second;
  return decoded_.emplace(tensor, state().object(kTensors).bytes(last_part(tensor))).first->second;
}

std::int64_t StreamInText::bytes(const std::string& tensor) const { return std::ssize(decoded(tensor)); }

void StreamInText::read(const std::string& tensor, std::int64_t first, std::span<std::byte> out) const {
  const auto bytes = std::as_bytes(std::span(decoded(tensor)));
  std::ranges::copy(bytes.subspan(static_cast<std::size_t>(first), out.size()), out.begin());
}

}  // namespace rota::internal
