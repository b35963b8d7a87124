#include "cli/stream_trace.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cli/trace.hpp"
#include "rota/error.hpp"

namespace rota::tracing {
namespace {

static_assert(std::is_nothrow_move_constructible_v<StreamTraceWriter>);
static_assert(std::is_nothrow_move_assignable_v<StreamTraceWriter>);

using Json = nlohmann::json;

[[noreturn]] void fail(const char* what, const std::filesystem::path& path) {
  throw Error(ErrorCode::io, fmt::format("{} trace file {}: {}", what, path.string(),
                                         std::generic_category().message(errno)));
}

Json parse(const std::string& line) {
  Json record = Json::parse(line, nullptr, false);
  if (!record.is_object()) throw std::invalid_argument("not a JSON object");
  return record;
}

// Throws what nlohmann-json throws for what is not there, or of another type.
std::int64_t natural(const Json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > (std::uint64_t{1} << 61)) {
    throw std::invalid_argument(value.dump() + " is not a number from 0 on");
  }
  return value.get<std::int64_t>();
}

int small(const Json& value) {
  const std::int64_t number = natural(value);
  if (number > (std::int64_t{1} << 30)) throw std::invalid_argument(value.dump() + " is too large");
  return static_cast<int>(number);
}

StreamPosition to_position(const Json& record) {
  return {.epoch = natural(record.at("epoch")), .step = natural(record.at("step"))};
}

StreamTraceStart to_start(const Json& record) {
  if (record.at("event") != "start" || !record.contains("shards")) {
    throw std::invalid_argument("the first record is not the start record of a stream's trace");
  }
  if (record.at("v") != 1) throw std::invalid_argument("this program reads traces of version 1");
  StreamTraceStart start{.phase = natural(record.at("phase")),
                         .world = {.rank = small(record.at("rank")), .size = small(record.at("world"))},
                         .workers = small(record.at("workers")),
                         .shards = natural(record.at("shards")),
                         .batch = natural(record.at("batch")),
                         .resumed_from = to_position(record.at("resumed_from"))};
  start.world.validate();
  return start;
}

void to_batch(const Json& record, StreamTraceBatch& batch) {
  batch.start = to_position(record);
  batch.ids.clear();
  batch.positions.clear();
  batch.digests.clear();
  for (const Json& id : record.at("ids")) batch.ids.push_back(parse_stream_id(id.get<std::string>()));
  for (const Json& position : record.at("positions")) batch.positions.push_back(natural(position));
  for (const Json& digest : record.at("digests")) {
    batch.digests.push_back(std::stoull(digest.get<std::string>(), nullptr, 16));
  }
  if (batch.positions.size() != batch.ids.size() || batch.digests.size() != batch.ids.size()) {
    throw std::invalid_argument(fmt::format("{} ids, {} positions and {} digests", batch.ids.size(),
                                            batch.positions.size(), batch.digests.size()));
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
    : path_(dir / trace_file_name(start.phase, start.world.rank)),
      phase_(start.phase),
      rank_(start.world.rank) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("create", path_);
  append(fmt::format(
      R"({{"event":"start","v":1,"phase":{},"world":{},"rank":{},"workers":{},"shards":{},"batch":{},)"
      R"("resumed_from":{{"epoch":{},"step":{}}}}})",
      phase_, start.world.size, rank_, start.workers, start.shards, start.batch, start.resumed_from.epoch,
      start.resumed_from.step));
}

StreamTraceWriter::~StreamTraceWriter() {
  if (file_ >= 0) ::close(file_);
}

StreamTraceWriter::StreamTraceWriter(StreamTraceWriter&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      phase_(other.phase_),
      rank_(other.rank_) {}

StreamTraceWriter& StreamTraceWriter::operator=(StreamTraceWriter&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(phase_, other.phase_);
  std::swap(rank_, other.rank_);
  return *this;
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
  append(fmt::format(
      R"({{"event":"batch","phase":{},"rank":{},"epoch":{},"step":{},"ids":[{}],"positions":[{}],"digests":[{}]}})",
      phase_, rank_, batch.start.epoch, batch.start.step, fmt::join(ids, ","),
      fmt::join(batch.positions, ","), fmt::join(digests, ",")));
}

void StreamTraceWriter::end(const StreamPosition& end) {
  append(fmt::format(R"({{"event":"end","phase":{},"rank":{},"epoch":{},"step":{}}})", phase_, rank_,
                     end.epoch, end.step));
}

void StreamTraceWriter::append(const std::string& line) {
  const std::string record = line + '\n';
  for (std::size_t done = 0; done < record.size();) {
    const ssize_t wrote = ::write(file_, record.data() + done, record.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write", path_);
    done += static_cast<std::size_t>(wrote);
  }
}

StreamTraceFile::StreamTraceFile(const std::filesystem::path& path) : path_(path), stream_(path) {
  if (!stream_)
    throw Error(ErrorCode::io, fmt::format("open trace file {}: it cannot be read", path.string()));
  if (!read_line()) return;
  try {
    start_ = to_start(parse(line_));
  } catch (const std::exception& error) {
    damage_ = damaged(error.what());
  }
}

StreamTraceFile::Next StreamTraceFile::next(StreamTraceBatch& batch) {
  damage_.clear();
  while (read_line()) {
    try {
      const Json record = parse(line_);
      const Json& event = record.at("event");
      if (event == "start") throw std::invalid_argument("a second start record");
      if (event != "batch" && event != "end") continue;
      if (natural(record.at("phase")) != start_->phase || natural(record.at("rank")) != start_->world.rank) {
        throw std::invalid_argument("a record of another phase or rank");
      }
      if (event == "end") {
        end_ = to_position(record);
        continue;
      }
      to_batch(record, batch);
      return Next::batch;
    } catch (const std::exception& error) {
      damage_ = damaged(error.what());
      return Next::damaged;
    }
  }
  return Next::end;
}

bool StreamTraceFile::read_line() {
  if (!std::getline(stream_, line_) || stream_.eof()) return false;  // at eof: the line has no end
  ++line_number_;
  return true;
}

std::string StreamTraceFile::damaged(const std::string& why) const {
  return fmt::format("{}:{}: {}", path_.filename().string(), line_number_, why);
}

}  // namespace rota::tracing
