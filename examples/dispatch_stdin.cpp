// Lines of a pipe, read by rank 0 and dispatched to all ranks. A pipe cannot be read again; still nothing is
// lost where a run stops in order and another, at another number of ranks, goes on with the same pipe.
//
//   make_lines | { dispatch_stdin --checkpoint c --stop-after 20; dispatch_stdin --checkpoint c; }
//
// mpirun reads standard input itself, ahead of its ranks, and what it has read ends with it. So for several
// ranks, several times, the pipe is to have a name, and somebody is to hold it open meanwhile:
//
//   mkfifo lines; make_lines > lines & exec 3< lines
//   mpirun -n 4 dispatch_stdin --input lines --checkpoint c --stop-after 20
//   mpirun -n 3 dispatch_stdin --input lines --checkpoint c

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include "rota/rota.hpp"

namespace {

/// Lines of a descriptor, without their ends. What was read and has not been handed out is in the cursor.
class Lines final : public rota::StreamSource {
 public:
  /// Standard input where `path` is empty.
  explicit Lines(const std::string& path)
      : path_(path.empty() ? "standard input" : path),
        file_(path.empty() ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) throw rota::Error(rota::ErrorCode::not_found, "open " + path_ + ": it cannot be read");
    // A pipe opens although its writer has ended by now, and is waited for when it is read.
    if (file_ != STDIN_FILENO) ::fcntl(file_, F_SETFL, O_RDONLY);
  }
  ~Lines() override {
    if (file_ != STDIN_FILENO) ::close(file_);
  }

  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::int64_t shards() const override { return 1; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 1; }
  [[nodiscard]] std::string where(rota::ShardId /*shard*/) const override { return path_; }

  /// Where the pipe stands: no other line can be gone to.
  [[nodiscard]] std::unique_ptr<rota::ShardStream> open(rota::ShardId /*shard*/, std::int64_t epoch,
                                                        const rota::StreamCursor& cursor) const override {
    const std::int64_t line = cursor.is_start() ? 0 : cursor.numbers[0];
    if (epoch > 0 || (was_opened_ && line != line_)) {
      throw rota::Error(
          rota::ErrorCode::unsupported,
          fmt::format("go to line {} of pass {}: a pipe at line {} cannot go back", line, epoch, line_));
    }
    if (!was_opened_) buffer_ = cursor.blob;
    was_opened_ = true;
    line_ = line;
    return std::make_unique<Stream>(*this);
  }

 private:
  class Stream final : public rota::ShardStream {
   public:
    explicit Stream(const Lines& lines) : lines_(lines) {}
    bool next(rota::StreamSample& out) override { return lines_.next(out); }
    void cursor(rota::StreamCursor& out) const override {
      out.numbers.assign(1, lines_.line_);
      out.blob = lines_.buffer_.substr(lines_.begin_);
    }

   private:
    const Lines& lines_;
  };

  bool next(rota::StreamSample& out) const {
    std::size_t end = buffer_.find('\n', begin_);
    while (end == std::string::npos && read_more()) end = buffer_.find('\n', searched_);
    if (end == std::string::npos && begin_ == buffer_.size()) return false;
    const std::string_view line =
        std::string_view(buffer_).substr(begin_, end == std::string::npos ? std::string::npos : end - begin_);
    out.resize(0, std::ssize(line));
    out.set(0, std::as_bytes(std::span(line)));
    begin_ = std::min(begin_ + line.size() + 1, buffer_.size());
    ++line_;
    return true;
  }

  // False at the end of the pipe.
  bool read_more() const {
    buffer_.erase(0, std::exchange(begin_, 0));
    searched_ = buffer_.size();
    std::array<char, 1 << 14> bytes{};
    ssize_t got = 0;
    do {
      got = ::read(file_, bytes.data(), bytes.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) throw rota::Error(rota::ErrorCode::io, "read " + path_ + ": it is broken");
    buffer_.append(bytes.data(), static_cast<std::size_t>(got));
    return got > 0;
  }

  std::string path_;
  int file_;
  std::vector<rota::Field> fields_{
      {.name = "text", .dtype = rota::DType::uint8, .shape = {}, .ragged = true}};
  // The one pipe's, whoever reads it.
  mutable bool was_opened_ = false;
  mutable std::int64_t line_ = 0;  // handed out
  mutable std::string buffer_;
  mutable std::size_t begin_ = 0;     // of what was not handed out
  mutable std::size_t searched_ = 0;  // bytes of it without an end of a line
};

/// What a rank has seen: lines, bytes, and a sum that any other line would change. Saved with the loader.
class Totals {
 public:
  using Values = std::array<std::int64_t, 3>;
  explicit Totals(const rota::Communicator& comm) : comm_(comm) {}

  void count(const rota::Batch& batch) {
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const auto bytes = batch.bytes(0, i);
      std::uint64_t hash = 14695981039346656037U;  // FNV-1a
      for (const std::byte byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
      values_[0] += 1;
      values_[1] += std::ssize(bytes);
      values_[2] = (values_[2] + static_cast<std::int64_t>(hash >> 32)) & 0xFFFFFFFF;
    }
  }
  void save(rota::Snapshot& snapshot) const { snapshot.tensor("totals", {3}, 1, values_); }
  void restore(const rota::Checkpoint& checkpoint) {
    values_ = {};
    const auto rows = checkpoint.read<std::int64_t>("totals");
    for (std::size_t i = 0; i < rows.size() && comm_.rank() == 0; ++i) values_.at(i % 3) += rows[i];
  }
  /// **Collective.** Of all ranks.
  [[nodiscard]] Values all() const {
    Values values = values_;
    comm_.sum(std::span(values));
    values[2] &= 0xFFFFFFFF;
    return values;
  }

 private:
  const rota::Communicator& comm_;
  Values values_{};
};

struct Options {
  std::string input;
  std::string checkpoint;
  std::int64_t batch = 64;
  std::int64_t stop_after = 0;
};

int run(const Options& options, const rota::Communicator& comm) {
  rota::Dispatch dispatch{.shards = 64};
  comm.together("open the pipe", [&] {
    if (comm.rank() == 0) dispatch.source = std::make_shared<Lines>(options.input);
  });
  rota::StreamLoader loader(comm, dispatch, {.global_batch_size = options.batch});
  Totals totals(comm);
  std::optional<rota::CheckpointDirectory> checkpoints;
  if (!options.checkpoint.empty()) {
    checkpoints.emplace(comm, options.checkpoint);
    checkpoints->restore_all(loader, totals);
  }
  const std::int64_t first_step = loader.position().step;
  bool is_over = false;
  while (!is_over && (options.stop_after == 0 || loader.position().step < first_step + options.stop_after)) {
    const auto batch = loader.next();
    is_over = !batch;
    if (batch) totals.count(*batch);
  }
  // From here on nothing more is read: what was read and not delivered is in the checkpoint.
  if (checkpoints) checkpoints->save_all(loader.position().step, loader, totals);
  const auto [lines, bytes, sum] = totals.all();
  if (comm.rank() == 0) {
    fmt::print("{} ranks, from step {} to {}: {} lines, {} bytes, sum {:08x}{}\n", comm.size(), first_step,
               loader.position().step, lines, bytes, sum, is_over ? "; the end" : "");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Reads the lines of a pipe on one rank, for all; stops and goes on at any number of ranks.");
  app.add_option("--input", options.input, "A pipe that has a name; standard input without it");
  app.add_option("--checkpoint", options.checkpoint, "Directory to go on from, and to save to");
  app.add_option("--batch", options.batch, "Global batch size")->capture_default_str();
  app.add_option("--stop-after", options.stop_after, "Stop after so many steps of this run")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  rota::mpi::Session session(argc, argv);
  return session.run([&] { return run(options, session.comm()); });
}
