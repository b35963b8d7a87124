#include "source/document_stream.hpp"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "core/failure.hpp"
#include "core/parallel.hpp"
#include "core/scarce.hpp"
#include "ranks/collectives.hpp"
#include "rota/types.hpp"

namespace rota::internal {
namespace {

constexpr std::int64_t kDocumentsAtOnce = 4096;

}  // namespace

std::int64_t add_tokens(std::int64_t tokens, std::int64_t more) {
  if (more <= LengthQuestion::kMost - tokens) return tokens + more;
  throw Error(ErrorCode::out_of_range, "pack documents: they have more than 2^62 tokens; pack fewer");
}

std::int64_t add_tokens(std::span<const std::int64_t> tokens) {
  std::int64_t total = 0;
  for (const std::int64_t more : tokens) total = add_tokens(total, more);
  return total;
}

DocumentStream::DocumentStream(const Lengths& lengths, const PackOptions& options,
                               const ranks::Nodes& nodes) {
  const Communicator& all = nodes.all();
  const std::int64_t size = lengths.size();
  if (options.shuffle_documents) order_.emplace(size, derive_key(options.seed, 0, Purpose::packing, 0));
  const std::int64_t first = share(size, all.rank(), all.size());
  const std::int64_t count = share(size, all.rank() + 1, all.size()) - first;
  const auto ends = std::make_shared<std::vector<std::int64_t>>();
  std::int64_t before = 0;
  all.together("compute where documents end", [&] {
    with_memory([&] { ends->resize(static_cast<std::size_t>(count)); },
                [&] { return fmt::format("pack documents: keep where {} of them end", count); });
    parallel_for(
        "compute where documents end", count, kDocumentsAtOnce, options.threads, [&](const LoopPart& part) {
          for (std::int64_t i = part.begin; i < part.end; ++i) {
            (*ends)[static_cast<std::size_t>(i)] = lengths[document(first + i)] + added_tokens(options);
          }
          if (part.is_callers) nodes.show_progress();
        });
    before = add_tokens(*ends);
  });
  std::vector<std::int64_t> of_ranks = ranks::all_gather(all, before);
  static_cast<void>(add_tokens(of_ranks));  // the same on all ranks
  before = add_tokens(std::span(of_ranks).first(static_cast<std::size_t>(all.rank())));
  for (std::int64_t& end : *ends) end = before += end;
  const auto mine = std::as_bytes(std::span(*ends));
  shared_ = all.size() == 1 ? NodeBuffer{.bytes = mine, .owner = ends}
                            : all_gather_to_nodes(nodes, "hand out where documents end", mine);
  ends_ = {reinterpret_cast<const std::int64_t*>(shared_.bytes.data()), static_cast<std::size_t>(size)};
}

PackFacts DocumentStream::counts(std::int64_t length) const noexcept {
  PackFacts counts{.tokens = tokens()};
  std::int64_t begin = 0;
  for (const std::int64_t end : ends_) {
    if (begin == end) continue;
    ++counts.documents;
    if (end - begin > length - begin % length) ++counts.cut;
    begin = end;
  }
  return counts;
}

// Where documents stand in random order, their ends are close to a line: a token is near where its share of
// all says, and nearer still to where its distance from there says.
std::size_t DocumentStream::guess(std::int64_t token) const noexcept {
  const double places_per_token = static_cast<double>(ends_.size()) / static_cast<double>(tokens());
  std::ptrdiff_t guess = 0;
  for (std::int64_t there = 0, round = 0; round < 3; ++round) {
    const double distance = static_cast<double>(token - there) * places_per_token;
    guess =
        std::clamp<std::ptrdiff_t>(guess + static_cast<std::ptrdiff_t>(distance), 0, std::ssize(ends_) - 1);
    there = ends_[static_cast<std::size_t>(guess)];
  }
  return static_cast<std::size_t>(guess);
}

// So few places are looked at, and most of them are neighbours.
std::size_t DocumentStream::place_of(std::int64_t token) const noexcept {
  const auto last = std::ssize(ends_) - 1;
  const auto is_behind = [&](std::ptrdiff_t place) { return ends_[static_cast<std::size_t>(place)] > token; };
  auto low = static_cast<std::ptrdiff_t>(guess(token));  // all places before it are too early
  std::ptrdiff_t high = low + 1;                         // one before it, or the last, is not
  for (std::ptrdiff_t step = 8; low > 0 && is_behind(low - 1); step *= 2) {
    high = low;
    low = std::max<std::ptrdiff_t>(low - step, 0);
  }
  for (std::ptrdiff_t step = 8; high <= last && !is_behind(high - 1); step *= 2) {
    low = high;
    high = std::min(high + step, last + 1);
  }
  const auto found = std::upper_bound(ends_.begin() + low, ends_.begin() + high, token);
  return static_cast<std::size_t>(found - ends_.begin());
}

}  // namespace rota::internal
