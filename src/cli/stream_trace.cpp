#include "cli/stream_trace.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include "cli/trace.hpp"
#include "cli/trace_record.hpp"

namespace rota::tracing {
namespace {

StreamPosition to_position(const Json& record) {
  return {.epoch = natural(record, "epoch"), .step = natural(record, "step")};
}

StreamTraceStart to_start(const Json& record) {
  require_start(record);
  if (!record.contains("shards")) throw Damage("it is a trace of samples with ids, not of streams");
  StreamTraceStart start{.phase = natural(record, "phase"),
                         .world = {.rank = small(record, "rank"), .size = small(record, "world")},
                         .workers = small(record, "workers"),
                         .shards = natural(record, "shards"),
                         .batch = natural(record, "batch"),
                         .split = parse_split(record.contains("split") ? text(record, "split") : "by_shard"),
                         .resumed_from = to_position(member(record, "resumed_from"))};
  start.world.validate();
  return start;
}

void to_batch(const Json& record, StreamTraceBatch& batch) {
  batch.start = to_position(record);
  batch.ids.clear();
  for (const Json& id : list(record, "ids")) batch.ids.push_back(parse_stream_id(id.get<std::string>()));
  read_list(record, "positions", batch.positions);
  read_digests(record, batch.digests);
  if (batch.positions.size() != batch.ids.size() || batch.digests.size() != batch.ids.size()) {
    throw Damage(fmt::format("{} ids, {} positions and {} digests", batch.ids.size(), batch.positions.size(),
                             batch.digests.size()));
  }
}

std::uint64_t digest_of(const StreamBatch& batch, std::int64_t i) {
  std::uint64_t digest = 0;
  for (std::size_t f = 0; f < batch.fields().size(); ++f) {
    const auto bytes = batch.bytes(f, i);
    digest = XXH3_64bits_withSeed(bytes.data(), bytes.size(), digest);
  }
  return digest;
}

}  // namespace

StreamTraceWriter::StreamTraceWriter(const std::filesystem::path& dir, const StreamTraceStart& start)
    : lines_(dir / trace_file_name(start.phase, start.world.rank)),
      phase_(start.phase),
      rank_(start.world.rank) {
  lines_.append(fmt::format(
      R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},"workers":{},"shards":{},"batch":{},)"
      R"("split":"{}","resumed_from":{{"epoch":{},"step":{}}}}})",
      phase_, start.world.size, rank_, start.workers, start.shards, start.batch, to_string(start.split),
      start.resumed_from.epoch, start.resumed_from.step));
}

void StreamTraceWriter::write(const StreamBatch& batch) {
  StreamTraceBatch record{.start = batch.start(),
                          .ids = {batch.ids().begin(), batch.ids().end()},
                          .positions = {batch.positions().begin(), batch.positions().end()},
                          .digests = {}};
  for (std::int64_t i = 0; i < batch.size(); ++i) record.digests.push_back(digest_of(batch, i));
  write(record);
}

void StreamTraceWriter::write(const StreamTraceBatch& batch) {
  std::vector<std::string> ids;
  std::vector<std::string> digests;
  for (const StreamId& id : batch.ids) ids.push_back(fmt::format("\"{}\"", rota::to_string(id)));
  for (const std::uint64_t digest : batch.digests) digests.push_back(fmt::format("\"{:016x}\"", digest));
  lines_.append(fmt::format(
      R"({{"event":"batch","phase":{},"rank":{},"epoch":{},"step":{},"ids":[{}],"positions":[{}],"digests":[{}]}})",
      phase_, rank_, batch.start.epoch, batch.start.step, fmt::join(ids, ","),
      fmt::join(batch.positions, ","), fmt::join(digests, ",")));
}

void StreamTraceWriter::end(const StreamPosition& end) {
  lines_.append(fmt::format(R"({{"event":"end","phase":{},"rank":{},"epoch":{},"step":{}}})", phase_, rank_,
                            end.epoch, end.step));
}

StreamTraceFile::StreamTraceFile(const std::filesystem::path& path) : lines_(path) {
  if (!lines_.next()) return;
  try {
    start_ = to_start(parse_record(lines_.line()));
  } catch (const std::exception& error) {
    damage_ = lines_.damaged(error.what());
  }
}

StreamTraceFile::Next StreamTraceFile::next(StreamTraceBatch& batch) {
  damage_.clear();
  while (lines_.next()) {
    try {
      const Json record = parse_record(lines_.line());
      const std::string event = event_of(record);
      if (event == "start") throw Damage("a second start record");
      if (event != "batch" && event != "end") continue;
      require_owner(record, start_->phase, start_->world.rank);
      if (event == "batch") {
        to_batch(record, batch);
        return Next::batch;
      }
      end_ = to_position(record);
    } catch (const std::exception& error) {
      damage_ = lines_.damaged(error.what());
      return Next::damaged;
    }
  }
  return Next::end;
}

}  // namespace rota::tracing
