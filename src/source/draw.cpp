#include "source/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/failure.hpp"
#include "core/scarce.hpp"
#include "ranks/collectives.hpp"
#include "ranks/node_buffer.hpp"
#include "ranks/nodes.hpp"
#include "rota/select.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

__extension__ using u128 = unsigned __int128;

constexpr std::string_view kRepeating = "repeat samples";
constexpr std::string_view kWeighting = "draw samples by weights";
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
constexpr double kWhole = 0x1p61;                      // what weights sum to, roughly

Permutation order_by(std::int64_t samples, std::uint64_t seed) {
  return {samples, derive_key(seed, 0, Purpose::draw, 0)};
}

void check_weights(std::span<const double> weights, std::int64_t samples) {
  if (std::ssize(weights) != samples) {
    throw failure(ErrorCode::invalid_argument, "{}: there are {} weights, and {} samples", kWeighting,
                  weights.size(), samples);
  }
  const auto is_wrong = [](double weight) { return !(weight >= 0 && std::isfinite(weight)); };
  const auto wrong = std::ranges::find_if(weights, is_wrong);
  if (wrong != weights.end()) {
    throw failure(ErrorCode::invalid_argument, "{}: weights[{}] is {}; each must be 0 or more", kWeighting,
                  wrong - weights.begin(), *wrong);
  }
  if (std::ranges::none_of(weights, [](double weight) { return weight > 0; }))
    throw failure(ErrorCode::invalid_argument, "{}: none of {} weights is above 0", kWeighting,
                  weights.size());
}

void require_draw(std::string_view what, std::int64_t number, std::int64_t count, std::int64_t epoch) {
  if (number >= 0 && number < count && epoch >= 0) return;
  throw failure(ErrorCode::out_of_range,
                "look up {} {} of epoch {}: there are 0 to {}, and epochs begin with 0", what, number, epoch,
                count - 1);
}

}  // namespace

Draws Draws::repeated(std::int64_t samples, double times, std::uint64_t seed) {
  const double whole = std::floor(times);
  const double rest = std::round((times - whole) * static_cast<double>(samples));
  if (!(times > 0 && whole * static_cast<double>(samples) + rest < static_cast<double>(kMaxCount)) ||
      whole * static_cast<double>(samples) + rest == 0) {
    throw failure(ErrorCode::invalid_argument,
                  "{}: {} samples {} times; give a number above 0, for 1 to 2^62 draws in an epoch",
                  kRepeating, samples, times);
  }
  const auto extra = static_cast<std::int64_t>(rest);
  const std::int64_t size = samples * static_cast<std::int64_t>(whole) + extra;
  const Fingerprint known =
      FingerprintBuilder().add("repeat").add(samples).add(size).add(static_cast<std::int64_t>(seed)).finish();
  return {size, order_by(samples, seed), known};
}

Draws Draws::weighted(const Communicator& comm, std::int64_t samples, std::span<const double> weights,
                      std::int64_t draws, std::uint64_t seed) {
  const ranks::Nodes nodes(comm.duplicate());
  const Communicator& all = nodes.all();
  Fingerprint known;
  all.together(kWeighting, [&] {
    check_weights(weights, samples);
    if (draws < 1 || draws > kMaxCount)
      throw failure(ErrorCode::invalid_argument, "{}: {} draws of an epoch; give 1 to 2^62", kWeighting,
                    draws);
    known = FingerprintBuilder()
                .add("weighted")
                .add(std::span(reinterpret_cast<const std::int64_t*>(weights.data()), weights.size()))
                .add(draws)
                .add(static_cast<std::int64_t>(seed))
                .finish();
  });
  ranks::require_same(all, kWeighting, "weights, draws and seed " + to_string(known));
  Draws made(draws, order_by(samples, seed), known);
  const double most = *std::ranges::max_element(weights);
  double sum = 0;
  for (const double weight : weights) sum += weight / most;
  const auto share_of = [&](std::int64_t k) {
    const double weight = weights[static_cast<std::size_t>(made.order_(k))] / most;
    return weight > 0 ? std::max<std::int64_t>(1, static_cast<std::int64_t>(weight / sum * kWhole)) : 0;
  };
  // Each rank its part of the sums, which it then knows the begin of.
  const std::int64_t first = share(samples, all.rank(), all.size());
  const std::int64_t last = share(samples, all.rank() + 1, all.size());
  const auto mine = std::make_shared<std::vector<std::int64_t>>();
  std::vector<std::int64_t> ends(static_cast<std::size_t>(all.size()));
  const std::size_t skipped = all.rank() == 0 ? 1 : 0;  // the sum of none
  all.together(kWeighting, [&] {
    with_memory([&] { mine->resize(static_cast<std::size_t>(last - first) + skipped); },
                [&] { return fmt::format("{}: keep {} sums", kWeighting, last - first); });
    std::int64_t before = 0;
    for (std::int64_t k = first; k < last; ++k)
      (*mine)[static_cast<std::size_t>(k - first) + skipped] = before += share_of(k);
    ends[static_cast<std::size_t>(all.rank())] = before;
  });
  all.sum(ends);
  const std::int64_t before = std::accumulate(ends.begin(), ends.begin() + all.rank(), std::int64_t{0});
  for (std::int64_t& one : *mine) one += before;
  const auto bytes = std::as_bytes(std::span(*mine));
  const NodeBuffer shared = all.size() == 1 ? NodeBuffer{.bytes = bytes, .owner = mine}
                                            : all_gather_to_nodes(nodes, "hand out sums of weights", bytes);
  made.keep_ = shared.owner;
  made.sums_ = {reinterpret_cast<const std::int64_t*>(shared.bytes.data()),
                static_cast<std::size_t>(samples) + 1};
  made.first_ = derive_key(seed, 0, Purpose::draw, 1).low;
  return made;
}

// Where an epoch begins: in the order of which the rest of each is taken; or, of weights, how far into the
// first distance, in parts of it.
std::int64_t Draws::begin(std::int64_t epoch) const noexcept {
  const auto number = static_cast<std::uint64_t>(epoch);
  if (sums_.empty()) {
    const auto samples = static_cast<std::uint64_t>(this->samples());
    return static_cast<std::int64_t>(u128{number} * (static_cast<std::uint64_t>(size_) % samples) % samples);
  }
  const std::uint64_t turn = first_ + number * kGolden;  // of 2^64: it goes round
  return static_cast<std::int64_t>(u128{turn} * static_cast<std::uint64_t>(total()) >> 64);
}

SampleId Draws::sample(SampleId draw, std::int64_t epoch) const noexcept {
  if (sums_.empty()) {
    const std::int64_t extra = draw.value - (size_ - size_ % samples());
    return {extra < 0 ? draw.value % samples() : order_((begin(epoch) + extra) % samples())};
  }
  const u128 scaled =
      u128(draw.value) * static_cast<std::uint64_t>(total()) + static_cast<std::uint64_t>(begin(epoch));
  const auto point = static_cast<std::int64_t>(scaled / static_cast<std::uint64_t>(size_));
  return {order_(std::ranges::upper_bound(sums_, point) - sums_.begin() - 1)};
}

SampleId Draws::drawn(SampleId draw, std::int64_t epoch) const {
  require_draw("draw", draw.value, size_, epoch);
  return sample(draw, epoch);
}

std::vector<SampleId> Draws::draws_of(SampleId sample, std::int64_t epoch) const {
  require_draw("sample", sample.value, samples(), epoch);
  const std::int64_t place = order_.inverse(sample.value);
  std::vector<SampleId> draws;
  if (sums_.empty()) {
    const std::int64_t rest = size_ - size_ % samples();
    for (std::int64_t draw = sample.value; draw < rest; draw += samples()) draws.push_back({draw});
    const std::int64_t extra = (place - begin(epoch) + samples()) % samples();
    if (rest + extra < size_) draws.push_back({rest + extra});
    return draws;
  }
  // The first draw at or behind a sum.
  const auto at = [&](std::int64_t sum) {
    const u128 ahead = u128(sum) * static_cast<std::uint64_t>(size_);
    const auto begin = static_cast<std::uint64_t>(this->begin(epoch));
    const auto whole = static_cast<std::uint64_t>(total());
    return ahead <= begin ? 0 : static_cast<std::int64_t>((ahead - begin + whole - 1) / whole);
  };
  const std::int64_t end = at(sums_[static_cast<std::size_t>(place) + 1]);
  for (std::int64_t draw = at(sums_[static_cast<std::size_t>(place)]); draw < end; ++draw)
    draws.push_back({draw});
  return draws;
}

namespace {

class Drawn final : public Source, public PlannedSource {
 public:
  Drawn(std::shared_ptr<const Source> whole, std::shared_ptr<const SourceFacts> facts, Draws draws)
      : whole_(std::move(whole)), facts_(std::move(facts)), draws_(std::move(draws)) {}

  [[nodiscard]] const Draws& draws() const noexcept { return draws_; }

  [[nodiscard]] std::int64_t size() const override { return draws_.size(); }
  [[nodiscard]] const std::vector<Field>& fields() const override { return facts_->fields; }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    static_cast<void>(rows_in({}, ids, field, out));
  }
  bool rows_in(std::span<const std::int64_t> epochs, std::span<const SampleId> ids, std::size_t field,
               std::span<std::int64_t> out) const override {
    if (epochs.empty() && !ids.empty()) refuse(field);
    const auto drawn = samples(ids, epochs);
    ask_rows(*whole_, epochs, drawn, field, out);
    return true;
  }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    whole_->read(samples(ids, out.epochs()), out);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    auto whole = instance_of(*whole_, worker);
    return whole ? std::make_unique<Drawn>(std::move(whole), facts_, draws_) : nullptr;
  }
  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return std::make_unique<MappedPlan>(*this, *whole_, open, MappedPlan::Map{.changes_by_epoch = true});
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const override {
    return of.end - of.begin < size() ? std::vector<SampleContent>() : content_of(*whole_, most);
  }
  [[nodiscard]] bool keeps_samples() const override { return false; }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add(whole_->fingerprint()).add(draws_.fingerprint()).finish();
  }

 private:
  [[noreturn]] void refuse(std::size_t field) const {
    throw failure(ErrorCode::unsupported,
                  "size samples that are drawn anew each epoch, for whom no epoch is said: put repeat() and "
                  "weighted() outside of what asks for rows of \"{}\", such as pack() or an adaptor of yours",
                  facts_->fields[field].name);
  }
  [[nodiscard]] std::vector<SampleId> samples(std::span<const SampleId> ids,
                                              std::span<const std::int64_t> epochs) const {
    check_ids(*this, ids);
    std::vector<SampleId> drawn(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
      drawn[i] = draws_.sample(ids[i], epochs.empty() ? 0 : epochs[i]);
    return drawn;
  }

  std::shared_ptr<const Source> whole_;
  std::shared_ptr<const SourceFacts> facts_;
  Draws draws_;
};

SourceFacts facts_of(const std::shared_ptr<const Source>& source, std::string_view task) {
  require_source(source, task);
  SourceFacts facts = ask_facts(*source, task);
  if (facts.size == 0) throw failure(ErrorCode::invalid_argument, "{}: the dataset has none", task);
  return facts;
}

const Draws& draws_in(const Source& source) {
  if (const auto* const drawn = dynamic_cast<const Drawn*>(&source)) return drawn->draws();
  if (own_fingerprint(source)) return draws_in(*PlannedSource::inner_of(source));
  throw failure(ErrorCode::invalid_argument,
                "look up a draw: the source is none that repeat() or weighted() has made");
}

}  // namespace
}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Source> repeat(const std::shared_ptr<const Source>& source, double times,
                                     std::uint64_t seed) {
  auto facts =
      std::make_shared<const internal::SourceFacts>(internal::facts_of(source, internal::kRepeating));
  auto draws = internal::Draws::repeated(facts->size, times, seed);
  return std::make_shared<internal::Drawn>(source, std::move(facts), std::move(draws));
}

std::shared_ptr<const Source> weighted(const Communicator& comm, const std::shared_ptr<const Source>& source,
                                       std::span<const double> weights, std::int64_t draws,
                                       std::uint64_t seed) {
  std::shared_ptr<const internal::SourceFacts> facts;
  comm.together(internal::kWeighting, [&] {
    facts = std::make_shared<const internal::SourceFacts>(internal::facts_of(source, internal::kWeighting));
  });
  auto made = internal::Draws::weighted(comm, facts->size, weights, draws, seed);
  return std::make_shared<internal::Drawn>(source, std::move(facts), std::move(made));
}

std::shared_ptr<const Source> weighted(const std::shared_ptr<const Source>& source,
                                       std::span<const double> weights, std::int64_t draws,
                                       std::uint64_t seed) {
  return weighted(Communicator(), source, weights, draws, seed);
}

SampleId drawn(const Source& source, SampleId id, std::int64_t epoch) {
  return internal::draws_in(source).drawn(id, epoch);
}

std::vector<SampleId> draws_of(const Source& source, SampleId sample, std::int64_t epoch) {
  return internal::draws_in(source).draws_of(sample, epoch);
}

}  // namespace rota
