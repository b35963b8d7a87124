#include "rota/packing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <cwchar>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "ranks/collectives.hpp"
#include "ranks/nodes.hpp"
#include "source/document_stream.hpp"
#include "source/field_check.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

constexpr const char* kSegmentField = "segment_ids";
constexpr const char* kPositionField = "position_ids";

Error refusal(const std::string& what) { return {ErrorCode::invalid_argument, "pack documents: " + what}; }

/// The tokens that a type can hold: [least, most].
struct TokenRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

// Nothing where `dtype` is no type of integers.
std::optional<TokenRange> range_of(DType dtype) {
  const auto unused = 64 - static_cast<int>(size_of(dtype)) * 8;  // bits of an int64
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  if (to_string(dtype).starts_with("int")) return TokenRange{-(most >> unused) - 1, most >> unused};
  if (!to_string(dtype).starts_with("uint")) return std::nullopt;
  return TokenRange{0, unused == 0 ? most : most >> (unused - 1)};
}

bool holds_tokens(const Field& field) {
  return field.ragged && field.shape.empty() && range_of(field.dtype).has_value();
}

std::size_t find_tokens(const std::vector<Field>& fields, const std::string& name) {
  std::vector<std::size_t> found;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (name.empty() ? holds_tokens(fields[f]) : fields[f].name == name) found.push_back(f);
  }
  if (name.empty() && found.size() != 1) {
    throw refusal(
        fmt::format("{} of their fields are ragged, of scalar integers, and one is needed; name it (the "
                    "option field); there are {}",
                    found.size(), describe(fields)));
  }
  if (found.empty()) {
    throw failure(ErrorCode::not_found, "pack documents: no field \"{}\"; there are {}", name,
                  describe(fields));
  }
  if (!holds_tokens(fields[found[0]])) {
    throw refusal(
        fmt::format("field \"{}\" is not ragged, of scalar integers; there are {}", name, describe(fields)));
  }
  for (const char* made : {kSegmentField, kPositionField}) {
    if (fields[found[0]].name != made) continue;
    throw refusal(
        fmt::format("their tokens are named \"{}\", as a field that packing adds; rename it", made));
  }
  return found[0];
}

/// One token as it lies in memory.
class Token {
 public:
  // `option` names it in messages.
  Token(const char* option, std::int64_t value, DType dtype) : bytes_(size_of(dtype)) {
    static_assert(std::endian::native == std::endian::little, "the low bytes of a number are its first");
    const TokenRange range = range_of(dtype).value_or(TokenRange{});
    if (value < range.least || value > range.most) {
      throw refusal(fmt::format("{} is {}, and tokens of {} go from {} to {}", option, value,
                                to_string(dtype), range.least, range.most));
    }
    std::memcpy(token_.data(), &value, sizeof(value));
  }

  void fill(std::span<std::byte> to) const noexcept {
    for (std::size_t at = 0; at < to.size(); at += bytes_) std::memcpy(&to[at], token_.data(), bytes_);
  }

 private:
  std::size_t bytes_;
  std::array<std::byte, 8> token_{};
};

// Fills `to` with int32 numbers. wmemset, since the C library's is made for the processor at hand.
void fill(std::span<std::byte> to, std::int32_t number) noexcept {
  static_assert(sizeof(wchar_t) == sizeof(number));
  std::wmemset(reinterpret_cast<wchar_t*>(to.data()), number, to.size() / sizeof(number));
}

std::optional<Token> make_token(const char* option, std::optional<std::int64_t> value, DType dtype) {
  return value ? std::optional<Token>(std::in_place, option, *value, dtype) : std::nullopt;
}

/// What is packed, and how.
struct Plan {
  Plan(std::shared_ptr<const Source> source, const SourceFacts& facts, const PackOptions& options)
      : documents(std::move(source)),
        size(facts.size),
        field(find_tokens(facts.fields, options.field)),
        tokens(facts.fields[field]),
        length(options.length),
        bos(make_token("bos", options.bos, tokens.dtype)),
        eos(make_token("eos", options.eos, tokens.dtype)),
        pad("pad", options.pad, tokens.dtype) {
    if (options.shuffle_documents) seed = options.seed;
    const Fingerprint whole = documents->fingerprint();
    FingerprintBuilder builder;
    builder.add("pack").add(to_string(whole)).add(size).add(tokens.name).add(length);
    for (const auto& token : {options.bos, options.eos}) builder.add(token ? 1 : 0).add(token.value_or(0));
    builder.add(options.pad).add(seed ? 1 : 0).add(static_cast<std::int64_t>(seed.value_or(0)));
    fingerprint = builder.finish();
  }

  std::shared_ptr<const Source> documents;
  std::int64_t size;  // of them
  std::size_t field;
  Field tokens;
  std::int64_t length;
  std::optional<Token> bos;
  std::optional<Token> eos;
  Token pad;
  std::optional<std::uint64_t> seed;
  Fingerprint fingerprint;  // of all this
};

class PackedSource final : public Source, public PlannedSource {
 public:
  PackedSource(Plan plan, std::shared_ptr<const DocumentStream> stream)
      : plan_(std::move(plan)),
        stream_(std::move(stream)),
        token_bytes_(size_of(plan_.tokens.dtype)),
        positions_(static_cast<std::size_t>(std::min(plan_.length, stream_->tokens()))),
        fields_{{.name = plan_.tokens.name, .dtype = plan_.tokens.dtype, .shape = {plan_.length}},
                {.name = kSegmentField, .dtype = DType::int32, .shape = {plan_.length}},
                {.name = kPositionField, .dtype = DType::int32, .shape = {plan_.length}}} {
    std::iota(positions_.begin(), positions_.end(), 0);
  }

  [[nodiscard]] std::int64_t size() const override {
    return stream_->tokens() / plan_.length + (stream_->tokens() % plan_.length == 0 ? 0 : 1);
  }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add(to_string(plan_.fingerprint)).add(stream_->tokens()).finish();
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    std::vector<SampleRows> wanted;
    for (const SampleId id : ids) stream_->prefetch(id.value * plan_.length);
    for (std::size_t i = 0; i < ids.size(); ++i) lay_out(ids[i], out, i, wanted);
    plan_.documents->read_rows(wanted, plan_.field);
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    Plan plan = plan_;
    plan.documents = instance_of(*plan_.documents, worker);
    return plan.documents ? std::make_unique<PackedSource>(std::move(plan), stream_) : nullptr;
  }

  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return std::make_unique<MappedPlan>(*this, *plan_.documents, open, MappedPlan::Map());
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most) const override {
    return content_of(*plan_.documents, most);
  }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const SampleId document = documents(id).front();
    const std::string place = plan_.documents->where(document);
    return fmt::format("from document {} on{}{}", document.value, place.empty() ? "" : ", ", place);
  }

  [[nodiscard]] std::vector<SampleId> documents(SampleId id) const {
    check_ids(*this, std::span(&id, 1));
    std::vector<SampleId> all;
    visit(id, [&](const DocumentStream::DocumentPiece& piece) { all.push_back(piece.document); });
    return all;
  }

 private:
  template <typename Visit>
  void visit(SampleId id, Visit visit) const {
    const std::int64_t first = id.value * plan_.length;
    stream_->visit(first, first + std::min(plan_.length, stream_->tokens() - first), visit);
  }

  // All of sequence `id` but the tokens that are to be read, which are `wanted`.
  void lay_out(SampleId id, const BatchView& out, std::size_t i, std::vector<SampleRows>& wanted) const {
    std::byte* tokens = out.bytes(0, i).data();
    std::byte* const end = tokens + out.bytes(0, i).size();
    std::byte* segments = out.bytes(1, i).data();
    std::byte* positions = out.bytes(2, i).data();
    std::int32_t segment = 0;
    visit(id, [&](const DocumentStream::DocumentPiece& piece) {
      put_tokens(piece, tokens, wanted);
      tokens += static_cast<std::size_t>(piece.count) * token_bytes_;
      const auto bytes = static_cast<std::size_t>(piece.count) * sizeof(std::int32_t);
      fill({segments, bytes}, ++segment);
      std::memcpy(positions, positions_.data(), bytes);
      segments += bytes;
      positions += bytes;
    });
    if (tokens == end) return;
    plan_.pad.fill({tokens, end});
    const auto bytes = static_cast<std::size_t>(end - tokens) / token_bytes_ * sizeof(std::int32_t);
    std::memset(segments, 0, bytes);
    std::memset(positions, 0, bytes);
  }

  void put_tokens(const DocumentStream::DocumentPiece& piece, std::byte* to,
                  std::vector<SampleRows>& wanted) const {
    const std::int64_t before = plan_.bos ? 1 : 0;
    const std::int64_t last = piece.first + piece.count;
    const std::int64_t rows_end = piece.size - (plan_.eos ? 1 : 0);
    if (piece.first < before) plan_.bos->fill({to, token_bytes_});
    const std::int64_t first = std::max(piece.first, before);
    const std::int64_t count = std::min(last, rows_end) - first;
    if (count > 0) {
      wanted.push_back({.id = piece.document,
                        .first = first - before,
                        .count = count,
                        .to = to + static_cast<std::size_t>(first - piece.first) * token_bytes_});
    }
    if (last > rows_end) {
      plan_.eos->fill({to + static_cast<std::size_t>(piece.count - 1) * token_bytes_, token_bytes_});
    }
  }

  Plan plan_;
  std::shared_ptr<const DocumentStream> stream_;
  std::size_t token_bytes_;
  std::vector<std::int32_t> positions_;  // 0, 1, 2, ...: those of a segment
  std::vector<Field> fields_;
};

}  // namespace

}  // namespace rota::internal

namespace rota {

void PackOptions::validate() const {
  constexpr internal::OptionCheck kCheck("pack documents");
  kCheck.in_range("length", length, 1, std::numeric_limits<std::int32_t>::max(), "tokens");
  kCheck.in_range("threads", threads, 1, internal::kMaxThreads);
}

std::shared_ptr<const Source> pack(const Communicator& comm, std::shared_ptr<const Source> documents,
                                   const PackOptions& options) {
  const ranks::Nodes nodes(comm.duplicate());
  std::optional<internal::Plan> plan;
  nodes.all().together("pack documents", [&] {
    options.validate();
    if (documents == nullptr) throw internal::refusal("there are none (a null pointer)");
    plan.emplace(documents, internal::ask_facts(*documents, "pack documents"), options);
  });
  ranks::require_same(comm, "pack documents",
                      fmt::format("documents and options with fingerprint {}", to_string(plan->fingerprint)));
  const internal::SampleLengths lengths(
      *plan->documents, plan->size, plan->field,
      {.task = "pack documents", .sample = "document", .rows = "tokens", .threads = options.threads}, nodes);
  auto stream = std::make_shared<const internal::DocumentStream>(
      lengths,
      internal::DocumentStream::Options{
          .added = (plan->bos ? 1 : 0) + (plan->eos ? 1 : 0), .seed = plan->seed, .threads = options.threads},
      nodes);
  return std::make_shared<internal::PackedSource>(std::move(*plan), std::move(stream));
}

std::shared_ptr<const Source> pack(std::shared_ptr<const Source> documents, const PackOptions& options) {
  return pack(Communicator(), std::move(documents), options);
}

std::vector<SampleId> documents_of(const Source& packed, SampleId id) {
  const auto* source = dynamic_cast<const internal::PackedSource*>(&packed);
  if (source != nullptr) return source->documents(id);
  throw Error(ErrorCode::invalid_argument, "name the documents of a sequence: the source is none of pack()");
}

}  // namespace rota
