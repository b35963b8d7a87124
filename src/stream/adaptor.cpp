#include "stream/adaptor.hpp"

#include <algorithm>
#include <cstring>

#include "core/failure.hpp"

namespace rota::internal {
namespace {

void append(std::int64_t number, std::string& out) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

}  // namespace

StreamAdaptor::StreamAdaptor(std::shared_ptr<const StreamSource> inner, std::int64_t numbers,
                             std::string_view what)
    : inner_(std::move(inner)), numbers_(numbers) {
  if (!inner_) {
    throw failure(ErrorCode::invalid_argument, "{}: there is no source (a null pointer)", what);
  }
  inner_facts_ = ask_facts(*inner_, what);
}

std::optional<std::int64_t> StreamAdaptor::remaining(ShardId shard, const StreamCursor& cursor) const {
  return ask_remaining(*inner_, shard, split(shard, cursor).inner);
}

SplitCursor StreamAdaptor::split(ShardId shard, const StreamCursor& cursor) const {
  SplitCursor parts;
  if (cursor.is_start()) return parts;
  const auto own = cursor.numbers.end() - numbers_;
  if (std::ssize(cursor.numbers) == cursor_numbers()) {
    parts.numbers.assign(own, cursor.numbers.end());
    const std::int64_t bytes = numbers_ > 0 ? parts.numbers.back() : 0;
    if (bytes >= 0 && bytes <= std::ssize(cursor.blob)) {
      const std::size_t inner_bytes = cursor.blob.size() - static_cast<std::size_t>(bytes);
      parts.blob = cursor.blob.substr(inner_bytes);
      parts.inner = {{cursor.numbers.begin(), own}, cursor.blob.substr(0, inner_bytes)};
      return parts;
    }
  }
  throw failure(ErrorCode::corrupt,
                "open shard {} of a stream: its cursor has {} numbers and {} bytes; it is not of this "
                "source, whose cursors have {} numbers",
                shard.value, cursor.numbers.size(), cursor.blob.size(), cursor_numbers());
}

void append_sample(const StreamSample& sample, std::string& out) {
  append(sample.id().shard.value, out);
  append(sample.id().input, out);
  append(sample.id().output, out);
  for (std::size_t f = 0; f < sample.size(); ++f) append(sample.rows(f), out);
  for (std::size_t f = 0; f < sample.size(); ++f) {
    const auto bytes = sample.bytes(f);
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

std::size_t sample_bytes(const StreamSample& sample) noexcept {
  return (3 + sample.size()) * sizeof(std::int64_t) + sample.total_bytes();
}

ByteReader samples_in(std::string_view bytes) {
  return {std::as_bytes(std::span(bytes)), "unpack a sample of a stream's state"};
}

void take_sample(ByteReader& bytes, std::span<const Field> fields, StreamSample& out) {
  StreamId id;
  id.shard.value = bytes.next<std::int64_t>();
  id.input = bytes.next<std::int64_t>();
  id.output = bytes.next<std::int64_t>();
  out.set_id(id);
  const auto rows = bytes.next_bytes(fields.size() * sizeof(std::int64_t));
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto count = load<std::int64_t>(rows, f * sizeof(std::int64_t));
    const std::size_t width = std::max<std::size_t>(fields[f].row_bytes(), 1);
    const bool fits = count >= 0 && static_cast<std::uint64_t>(count) <= bytes.rest().size() / width;
    if (fields[f].ragged ? !fits : count != 1) {
      bytes.fail(fmt::format("field \"{}\" has {} rows; {} bytes are left", fields[f].name, count,
                             bytes.rest().size()));
    }
    const auto memory = out.resize(f, count);
    const auto taken = bytes.next_bytes(memory.size());
    if (!taken.empty()) std::memcpy(memory.data(), taken.data(), taken.size());
  }
}

}  // namespace rota::internal
