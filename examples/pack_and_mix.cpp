// Two collections of documents packed into sequences of one length, and mixed by weight; half-way the weights
// change. Those of code stay whole. Ranks have as much to do, by the squares of what is in their sequences. A
// run stops after some steps and goes on at any number of ranks. In the end, every token of each complete
// epoch must have been seen once, whatever became of the ranks.
//
//   mpirun -n 4 pack_and_mix 40     # stops after 40 steps
//   mpirun -n 3 pack_and_mix        # goes on to the end
//
// Checkpoints are kept in ./packed: remove it to begin anew.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>

#include "rota/rota.hpp"
#include "whole_number.hpp"

namespace {

constexpr std::int64_t kSequence = 64;
constexpr std::int32_t kEnd = -1;  // of a document
constexpr std::int64_t kChangeAt = 60;

/// Documents of 0 to 6,000 tokens, most of them short; tokens are numbered through, so that each can be told.
class Documents final : public rota::Source {
 public:
  explicit Documents(std::int64_t count) : begins_{0} {
    for (std::int64_t d = 0; d < count; ++d) {
      begins_.push_back(begins_.back() + (d % 50 == 17 ? 6000 : d * 37 % 251));
    }
  }
  [[nodiscard]] std::int64_t size() const override { return std::ssize(begins_) - 1; }
  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::int64_t tokens() const { return begins_.back(); }

  void rows(std::span<const rota::SampleId> ids, std::size_t, std::span<std::int64_t> out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) out[i] = begin(ids[i], 1) - begin(ids[i]);
  }
  void read(std::span<const rota::SampleId> ids, const rota::BatchView& out) const override {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(begin(ids[i], 1) - begin(ids[i])));
      std::iota(tokens.begin(), tokens.end(), static_cast<std::int32_t>(begin(ids[i])));
      std::ranges::copy(std::as_bytes(std::span(tokens)), out.bytes(0, i).begin());
    }
  }

 private:
  [[nodiscard]] std::int64_t begin(rota::SampleId id, std::int64_t after = 0) const {
    return begins_[static_cast<std::size_t>(id.value + after)];
  }

  std::vector<std::int64_t> begins_;  // of documents, and where the last ends
  std::vector<rota::Field> fields_{
      {.name = "tokens", .dtype = rota::DType::int32, .shape = {}, .ragged = true}};
};

/// How often this rank has seen each token of each dataset in its first epoch. Saved with the loader, each
/// rank its share of the sums.
class Seen {
 public:
  Seen(const rota::Communicator& comm, std::array<std::int64_t, 2> tokens)
      : comm_(comm), first_of_second_(tokens[0]), times_(static_cast<std::size_t>(tokens[0] + tokens[1])) {}

  void count(const rota::Batch& batch) {
    const auto tokens = batch.tensor("tokens").as<std::int32_t>();
    const auto segments = batch.tensor("segment_ids").as<std::int32_t>();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t sequence = i / kSequence;
      const bool is_token = segments[i] != 0 && tokens[i] != kEnd;
      if (!is_token || batch.epochs()[sequence] != 0) continue;
      ++times_[static_cast<std::size_t>((batch.datasets()[sequence] == 0 ? 0 : first_of_second_) +
                                        tokens[i])];
    }
  }

  /// **Collective.** What all ranks have seen, here for the rows of this rank alone.
  void share_out() {
    comm_.sum(std::span(times_));
    for (std::int64_t row = 0; row < std::ssize(times_); ++row) {
      if (row < rows().first || row >= rows().first + rows().count) times_[static_cast<std::size_t>(row)] = 0;
    }
  }
  void save(rota::Snapshot& snapshot) const { snapshot.tensor("seen", {}, rows().count, mine()); }
  void restore(const rota::Checkpoint& checkpoint) {
    std::ranges::copy(checkpoint.read<std::int64_t>("seen", rows()), times_.begin() + rows().first);
  }

  /// **Collective.** Tokens of a dataset that were seen once, and otherwise.
  std::array<std::int64_t, 2> verdict(std::int64_t dataset) {
    std::vector<std::int64_t> all = times_;
    comm_.sum(std::span(all));
    const auto begin = all.begin() + (dataset == 0 ? 0 : first_of_second_);
    const auto end = dataset == 0 ? all.begin() + first_of_second_ : all.end();
    const auto once = std::count(begin, end, 1);
    return {once, end - begin - once};
  }

 private:
  [[nodiscard]] rota::RowRange rows() const {
    const rota::World world = comm_.world();
    const std::int64_t first = rota::share(std::ssize(times_), world.rank, world.size);
    return {first, rota::share(std::ssize(times_), world.rank + 1, world.size) - first};
  }
  [[nodiscard]] std::span<const std::int64_t> mine() const {
    return std::span(times_).subspan(static_cast<std::size_t>(rows().first),
                                     static_cast<std::size_t>(rows().count));
  }

  const rota::Communicator& comm_;
  std::int64_t first_of_second_;
  std::vector<std::int64_t> times_;
};

int run(const rota::Communicator& comm, std::int64_t stop_after) {
  const auto web = std::make_shared<Documents>(700);
  const auto code = std::make_shared<Documents>(250);
  rota::PackOptions packing{.length = kSequence, .eos = kEnd, .seed = 1};
  const rota::Mixture::Part of_web{.source = rota::pack(comm, web, packing), .weight = 0.8};
  packing.fit = rota::Fit::best;
  const rota::Mixture::Part of_code{.source = rota::pack(comm, code, packing), .weight = 0.2};
  std::vector<std::int64_t> squares;
  for (const auto& part : {of_web, of_code}) {
    const rota::Lengths own = rota::squares_of(*part.source);
    for (rota::SampleId id; id.value < own.size(); ++id.value) squares.push_back(own[id]);
  }
  rota::Loader loader(comm, {.datasets = {of_web, of_code}, .end = rota::MixtureEnd::all_exhausted},
                      {.global_batch_size = 24,
                       .shards = 16,
                       .seed = 5,
                       .rank_split = rota::Split::balanced,
                       .balance = {.columns = {{.lengths = rota::Lengths(squares)}}}});
  Seen seen(comm, {web->tokens(), code->tokens()});
  rota::CheckpointDirectory checkpoints(comm, "packed");
  checkpoints.restore_all(loader, seen);

  std::array<std::int64_t, 2> sequences{};
  bool is_over = false;
  for (std::int64_t steps = 0; steps < stop_after && !is_over; ++steps) {
    if (loader.position().step == kChangeAt) loader.set_weights(std::array{0.5, 0.5});
    const auto batch = loader.next();
    is_over = !batch;
    if (!batch) continue;
    seen.count(*batch);
    for (const std::int32_t dataset : batch->datasets()) ++sequences[static_cast<std::size_t>(dataset)];
  }
  seen.share_out();
  checkpoints.save_all(loader.position().step, loader, seen);
  comm.sum(std::span(sequences));
  const auto in_web = seen.verdict(0);
  const auto in_code = seen.verdict(1);
  if (comm.rank() == 0) {
    fmt::print("{} ranks, to step {}: {} sequences of web, {} of code\n", comm.size(), loader.position().step,
               sequences[0], sequences[1]);
    if (is_over) {
      fmt::print("the end: of {} tokens, {} were seen once in their first epoch, {} otherwise\n",
                 web->tokens() + code->tokens(), in_web[0] + in_code[0], in_web[1] + in_code[1]);
    }
  }
  return is_over && in_web[1] + in_code[1] > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    return run(session.comm(), argc > 1 ? whole_number("the number of steps", argv[1]) : rota::kEndless);
  });
}
