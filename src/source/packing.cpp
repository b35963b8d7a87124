#include "rota/packing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <cwchar>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/enumerators.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/option.hpp"
#include "ranks/collectives.hpp"
#include "ranks/nodes.hpp"
#include "source/best_fit.hpp"
#include "source/document_stream.hpp"
#include "source/lengths.hpp"
#include "source/packed_fields.hpp"
#include "source/read_plan.hpp"
#include "source/source_facts.hpp"

namespace rota::internal {
namespace {

// Fills `to` with int32 numbers. wmemset, since the C library's is made for the processor at hand.
void fill(std::span<std::byte> to, std::int32_t number) noexcept {
  static_assert(sizeof(wchar_t) == sizeof(number));
  std::wmemset(reinterpret_cast<wchar_t*>(to.data()), number, to.size() / sizeof(number));
}

/// What is packed, and how.
struct Plan {
  Plan(std::shared_ptr<const Source> source, const SourceFacts& facts, const PackOptions& options)
      : documents(std::move(source)),
        size(facts.size),
        fields(packed_fields(facts.fields, options)),
        length(options.length),
        is_arranged_by_epoch(options.fit == Fit::best && options.shuffle_documents) {
    const Fingerprint whole = documents->fingerprint();
    FingerprintBuilder builder;
    builder.add("pack").add(to_string(whole)).add(size).add(fields[0].field.name).add(length);
    for (const auto& token : {options.bos, options.eos}) builder.add(token ? 1 : 0).add(token.value_or(0));
    const bool shuffles = options.shuffle_documents;
    builder.add(options.pad)
        .add(shuffles ? 1 : 0)
        .add(shuffles ? static_cast<std::int64_t>(options.seed) : 0);
    for (const auto& [name, value] : options.fields) builder.add(name).add(value);
    if (options.fit == Fit::best) builder.add("best");
    fingerprint = builder.finish();
  }

  std::shared_ptr<const Source> documents;
  std::int64_t size;  // of them
  std::vector<PackedField> fields;
  std::int64_t length;
  bool is_arranged_by_epoch;
  Fingerprint fingerprint;  // of all this
};

/// Which documents stand in which sequence: one of the two.
struct Layout {
  std::optional<DocumentStream> stream;
  std::optional<BestFit> fit;
};

class PackedSource final : public Source, public PlannedSource {
 public:
  PackedSource(Plan plan, std::shared_ptr<const Layout> layout, const Fingerprint& fingerprint)
      : plan_(std::move(plan)), layout_(std::move(layout)), fingerprint_(fingerprint) {
    for (const PackedField& packed : plan_.fields) fields_.push_back(packed.field);
    for (const char* made : {kPositionField, kSegmentField}) {
      fields_.insert(fields_.begin() + 1, {.name = made, .dtype = DType::int32, .shape = {plan_.length}});
    }
    const std::int64_t tokens = layout_->fit ? layout_->fit->counts().tokens : layout_->stream->tokens();
    positions_.resize(static_cast<std::size_t>(std::min(plan_.length, tokens)));
    std::iota(positions_.begin(), positions_.end(), 0);
  }

  [[nodiscard]] std::int64_t size() const override {
    if (layout_->fit) return layout_->fit->sequences();
    const std::int64_t tokens = layout_->stream->tokens();
    return tokens / plan_.length + (tokens % plan_.length == 0 ? 0 : 1);
  }
  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override { return fingerprint_; }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (const SampleId id : ids) {
      if (layout_->stream) layout_->stream->prefetch(id.value * plan_.length);
    }
    std::vector<std::vector<SampleRows>> wanted(plan_.fields.size());
    std::vector<DocumentPiece> pieces;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      pieces.clear();
      visit(ids[i], out.epoch(i), [&](const DocumentPiece& piece) { pieces.push_back(piece); });
      number(pieces, out.bytes(1, i), out.bytes(2, i));
      for (std::size_t f = 0; f < plan_.fields.size(); ++f) {
        lay_out(plan_.fields[f], pieces, out.bytes(f == 0 ? 0 : f + 2, i), wanted[f]);
      }
    }
    for (std::size_t f = 0; f < plan_.fields.size(); ++f) {
      plan_.documents->read_rows(wanted[f], plan_.fields[f].index);
    }
  }

  [[nodiscard]] std::unique_ptr<const Source> for_worker(const WorkerInfo& worker) const override {
    Plan plan = plan_;
    plan.documents = instance_of(*plan_.documents, worker);
    if (!plan.documents) return nullptr;
    return std::make_unique<PackedSource>(std::move(plan), layout_, fingerprint_);
  }

  [[nodiscard]] std::unique_ptr<ReadPlan> plan_reads(std::int64_t open) const override {
    return std::make_unique<MappedPlan>(*this, *plan_.documents, open,
                                        MappedPlan::Map{.changes_by_epoch = plan_.is_arranged_by_epoch});
  }
  [[nodiscard]] std::vector<SampleContent> content(std::int64_t most, SampleRange of) const override {
    return of.end - of.begin < size() ? std::vector<SampleContent>() : content_of(*plan_.documents, most);
  }

  [[nodiscard]] bool keeps_samples() const override { return false; }

  [[nodiscard]] std::string where(SampleId id) const override {
    if (id.value < 0 || id.value >= size()) return {};
    const SampleId document = documents(id, 0).front();
    const std::string place = plan_.documents->where(document);
    return fmt::format("{}from document {} on{}{}", plan_.is_arranged_by_epoch ? "in epoch 0 " : "",
                       document.value, place.empty() ? "" : ", ", place);
  }

  [[nodiscard]] std::vector<SampleId> documents(SampleId id, std::int64_t epoch) const {
    check_ids(*this, std::span(&id, 1));
    if (epoch < 0)
      throw failure(ErrorCode::out_of_range, "name documents of epoch {}: epochs begin with 0", epoch);
    std::vector<SampleId> all;
    visit(id, epoch, [&](const DocumentPiece& piece) { all.push_back(piece.document); });
    return all;
  }

  /// Of each sequence, the sum of `of` of what it has of each document.
  template <typename Of>
  [[nodiscard]] Lengths sums(Of of) const {
    std::vector<std::int64_t> sums(static_cast<std::size_t>(size()));
    for (SampleId id; id.value < size(); ++id.value) {
      visit(id, 0,
            [&](const DocumentPiece& piece) { sums[static_cast<std::size_t>(id.value)] += of(piece.count); });
    }
    return Lengths(sums);
  }

  [[nodiscard]] PackFacts facts() const {
    PackFacts facts = layout_->fit ? layout_->fit->counts() : layout_->stream->counts(plan_.length);
    facts.sequences = size();
    const double room = static_cast<double>(size()) * static_cast<double>(plan_.length);
    if (room > 0) facts.fill = static_cast<double>(facts.tokens) / room;
    return facts;
  }

 private:
  template <typename Visit>
  void visit(SampleId id, std::int64_t epoch, Visit visit) const {
    if (layout_->fit) return layout_->fit->visit(id.value, epoch, visit);
    const DocumentStream& stream = *layout_->stream;
    const std::int64_t first = id.value * plan_.length;
    stream.visit(first, first + std::min(plan_.length, stream.tokens() - first), visit);
  }

  void number(std::span<const DocumentPiece> pieces, std::span<std::byte> segments,
              std::span<std::byte> positions) const {
    std::size_t at = 0;
    std::int32_t segment = 0;
    for (const DocumentPiece& piece : pieces) {
      const auto bytes = static_cast<std::size_t>(piece.count) * sizeof(std::int32_t);
      fill(segments.subspan(at, bytes), ++segment);
      std::memcpy(&positions[at], positions_.data(), bytes);
      at += bytes;
    }
    std::ranges::fill(segments.subspan(at), std::byte{0});
    std::ranges::fill(positions.subspan(at), std::byte{0});
  }

  // All of a field but what is to be read, which is `wanted`.
  static void lay_out(const PackedField& field, std::span<const DocumentPiece> pieces,
                      std::span<std::byte> to, std::vector<SampleRows>& wanted) {
    std::size_t at = 0;
    for (const DocumentPiece& piece : pieces) {
      field.put(piece, &to[at], wanted);
      at += static_cast<std::size_t>(piece.count) * size_of(field.field.dtype);
    }
    field.pad.fill(to.subspan(at));
  }

  Plan plan_;
  std::shared_ptr<const Layout> layout_;
  Fingerprint fingerprint_;
  std::vector<std::int32_t> positions_;  // 0, 1, 2, ...: those of a segment
  std::vector<Field> fields_;            // the tokens, segments and positions, and what else is packed
};

const PackedSource& packed_source(const Source& packed, std::string_view task) {
  if (const auto* source = dynamic_cast<const PackedSource*>(&packed)) return *source;
  throw failure(ErrorCode::invalid_argument, "{}: the source is none of pack()", task);
}

// Lengths decide whether best fit can fill sequences.
void tell_low_fill(const PackFacts& facts, std::int64_t length) {
  constexpr double kLow = 0.95;
  if (facts.fill >= kLow || (1 - facts.fill) * static_cast<double>(facts.sequences) < 1) return;
  tell(
      fmt::format("pack documents: best fit fills {:.1f} % of sequences of {} tokens, the rest is padding: "
                  "few documents find room beside another; a greater length fills more, and the fit "
                  "\"concat\" all",
                  100 * facts.fill, length));
}

}  // namespace

}  // namespace rota::internal

namespace rota {

void PackOptions::validate() const {
  constexpr internal::OptionCheck kCheck("pack documents");
  kCheck.in_range("length", length, 1, std::numeric_limits<std::int32_t>::max(), "tokens");
  kCheck.one_of("fit", fit, internal::kFits);
  if (!cut_longer && fit != Fit::best) kCheck.refuse("cut_longer", "false", "true unless fit is best");
  kCheck.in_range("threads", threads, 1, internal::kMaxThreads);
}

std::shared_ptr<const Source> pack(const Communicator& comm, std::shared_ptr<const Source> documents,
                                   const PackOptions& options) {
  const ranks::Nodes nodes(comm.duplicate());
  std::optional<internal::Plan> plan;
  nodes.all().together("pack documents", [&] {
    options.validate();
    if (documents == nullptr) {
      throw Error(ErrorCode::invalid_argument, "pack documents: there are none (a null pointer)");
    }
    plan.emplace(documents, internal::ask_facts(*documents, "pack documents"), options);
  });
  ranks::require_same(comm, "pack documents",
                      fmt::format("documents and options with fingerprint {}", to_string(plan->fingerprint)));
  std::vector<std::size_t> alike;
  for (const internal::PackedField& packed : plan->fields) alike.push_back(packed.index);
  const Lengths lengths = internal::ask_lengths(*plan->documents, plan->size, alike[0],
                                                {.task = "pack documents",
                                                 .sample = "document",
                                                 .rows = "tokens",
                                                 .alike = std::span(alike).subspan(1),
                                                 .threads = options.threads},
                                                nodes);
  auto layout = std::make_shared<internal::Layout>();
  FingerprintBuilder fingerprint;
  fingerprint.add(to_string(plan->fingerprint));
  if (options.fit == Fit::best) {
    layout->fit.emplace(lengths, options, nodes);
    fingerprint.add(lengths.digest());
  } else {
    layout->stream.emplace(lengths, options, nodes);
    fingerprint.add(layout->stream->tokens());
  }
  const auto packed =
      std::make_shared<internal::PackedSource>(std::move(*plan), std::move(layout), fingerprint.finish());
  if (options.fit == Fit::best && comm.rank() == 0) internal::tell_low_fill(packed->facts(), options.length);
  return packed;
}

std::shared_ptr<const Source> pack(std::shared_ptr<const Source> documents, const PackOptions& options) {
  return pack(Communicator(), std::move(documents), options);
}

std::vector<SampleId> documents_of(const Source& packed, SampleId id, std::int64_t epoch) {
  return internal::packed_source(packed, "name the documents of a sequence").documents(id, epoch);
}

Lengths squares_of(const Source& packed) {
  const auto& source = internal::packed_source(packed, "sum the squares of documents");
  return source.sums([](std::int64_t tokens) { return tokens * tokens; });
}
Lengths tokens_of(const Source& packed) {
  return internal::packed_source(packed, "count tokens of sequences").sums(std::identity());
}

PackFacts packing_of(const Source& packed) {
  return internal::packed_source(packed, "say how documents are packed").facts();
}

}  // namespace rota
