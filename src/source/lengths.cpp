#include "source/lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/parallel.hpp"
#include "core/scarce.hpp"
#include "ranks/collectives.hpp"
#include "rota/types.hpp"
#include "source/field_check.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kSamplesAtOnce = 4096;

void refuse_others(const Source& source, std::span<const SampleId> ids, std::span<const std::int64_t> lengths,
                   std::size_t field, std::size_t other, const LengthQuestion& question) {
  std::vector<std::int64_t> others(ids.size());
  source.rows(ids, other, others);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (others[i] == lengths[i]) continue;
    throw failure(ErrorCode::mismatch,
                  "{}: {} {} has {} {} in field \"{}\", and {} in field \"{}\"; they must have as many",
                  question.task, question.sample, ids[i].value, lengths[i], question.rows,
                  source.fields()[field].name, others[i], source.fields()[other].name);
  }
}

// Of samples that follow each other.
void ask(const Source& source, std::int64_t first, std::size_t field, const LengthQuestion& question,
         std::span<std::int64_t> lengths) {
  std::vector<SampleId> ids(lengths.size());
  for (SampleId& id : ids) id.value = first++;
  source.rows(ids, field, lengths);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (lengths[i] >= 0 && lengths[i] <= LengthQuestion::kMost) continue;
    throw failure(ErrorCode::callback, "{}: their source says that {} {} has {} {}; that cannot be",
                  question.task, question.sample, ids[i].value, lengths[i], question.rows);
  }
  for (const std::size_t other : question.alike) refuse_others(source, ids, lengths, field, other, question);
}

constexpr std::string_view kTask = "ask for lengths";

std::size_t find_ragged(const SourceFacts& facts, const std::string& field) {
  const auto found = std::ranges::find(facts.fields, field, &Field::name);
  const bool is_there = found != facts.fields.end();
  if (is_there && found->ragged) return static_cast<std::size_t>(found - facts.fields.begin());
  throw failure(is_there ? ErrorCode::invalid_argument : ErrorCode::not_found, "{}: {} \"{}\"; there are {}",
                kTask, is_there ? "not ragged, so that each sample has as many values, is field" : "no field",
                field, describe(facts.fields));
}

}  // namespace

Lengths ask_lengths(const Source& source, std::int64_t size, std::size_t field,
                    const LengthQuestion& question, const ranks::Nodes& nodes) {
  const Communicator& all = nodes.all();
  const std::string phase = fmt::format("ask for the lengths of {}s", question.sample);
  const std::int64_t first = share(size, all.rank(), all.size());
  const std::int64_t count = share(size, all.rank() + 1, all.size()) - first;
  const auto what = [&] { return fmt::format("{}: keep the lengths of {} of them", question.task, count); };
  std::vector<std::int64_t> asked;
  std::int64_t most = 0;
  all.together(phase, [&] {
    with_memory([&] { asked.resize(static_cast<std::size_t>(count)); }, what);
    parallel_for(phase, count, kSamplesAtOnce, question.threads, [&](const LoopPart& part) {
      const auto begin = static_cast<std::size_t>(part.begin);
      ask(source, first + part.begin, field, question,
          std::span(asked).subspan(begin, static_cast<std::size_t>(part.end) - begin));
      if (part.is_callers) nodes.show_progress();
    });
    for (const std::int64_t length : asked) most = std::max(most, length);
  });
  ranks::max(all, phase, std::span(&most, 1));
  const auto narrowed = [&]<typename T>(T /*number*/) {
    const auto mine = std::make_shared<std::vector<T>>();
    all.together(phase, [&] {
      with_memory([&] { mine->assign(asked.begin(), asked.end()); }, what);
      std::vector<std::int64_t>().swap(asked);
    });
    const auto bytes = std::as_bytes(std::span(*mine));
    const NodeBuffer shared = all.size() == 1
                                  ? NodeBuffer{.bytes = bytes, .owner = mine}
                                  : all_gather_to_nodes(nodes, "hand out " + phase.substr(8), bytes);
    return Lengths(shared.owner, std::span(reinterpret_cast<const T*>(shared.bytes.data()),
                                           static_cast<std::size_t>(size)));
  };
  const bool are_narrow = most <= std::numeric_limits<std::int32_t>::max();
  return are_narrow ? narrowed(std::int32_t{}) : narrowed(std::int64_t{});
}

void find_lengths(const Communicator& comm, const Source& source, int threads, Balance& balance) {
  std::string asked;
  for (const LengthColumn& column : balance.columns)
    if (column.lengths.size() == 0) asked += fmt::format(" \"{}\"", column.field);
  ranks::require_same(comm, "balance batches", "lengths asked of fields" + asked);
  comm.together("balance batches", [&] {
    for (const LengthColumn& column : balance.columns)
      if (!column.field.empty())
        static_cast<void>(find_ragged(ask_facts(source, "balance batches"), column.field));
  });
  for (LengthColumn& column : balance.columns) {
    if (column.lengths.size() == 0 && !column.field.empty())
      column.lengths = lengths_of(comm, source, column.field, std::max(threads, 1));
  }
}

}  // namespace rota::internal

namespace rota {

Lengths lengths_of(const Communicator& comm, const Source& source, const std::string& field, int threads) {
  using internal::kTask;
  const ranks::Nodes nodes(comm.duplicate());
  internal::SourceFacts facts;
  std::size_t number = 0;
  nodes.all().together(kTask, [&] {
    internal::OptionCheck(kTask).in_range("threads", threads, 1, internal::kMaxThreads);
    facts = internal::ask_facts(source, kTask);
    number = internal::find_ragged(facts, field);
  });
  ranks::require_same(comm, kTask, fmt::format("{} samples, field \"{}\"", facts.size, field));
  return internal::ask_lengths(source, facts.size, number, {.task = kTask, .threads = threads}, nodes);
}
Lengths lengths_of(const Source& source, const std::string& field, int threads) {
  return lengths_of(Communicator(), source, field, threads);
}

}  // namespace rota
