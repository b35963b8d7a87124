#include <fmt/format.h>

#include <limits>
#include <utility>

#include "core/option.hpp"
#include "rota/error.hpp"
#include "source/field_check.hpp"
#include "stream/adaptor.hpp"
#include "stream/instance.hpp"

namespace rota {
namespace {

using internal::SplitCursor;

constexpr std::string_view kTask = "flat_map a stream";

// What all streams of one source share.
struct Rule {
  FlatMapFunction make;
  std::int64_t most;
};

// Of its own a cursor has two numbers, how many samples of the input were handed out and how long that input
// is; and the input. Both are 0, and it is left out, where all of them were.
class FlatMapStream final : public ShardStream {
 public:
  FlatMapStream(std::unique_ptr<ShardStream> inner, const Rule& rule, std::int64_t epoch,
                std::span<const Field> inner_fields, std::span<const Field> fields)
      : inner_(std::move(inner)), rule_(rule), epoch_(epoch), input_(inner_fields), outputs_(fields) {}

  // Goes on in the midst of an input.
  void restore(const SplitCursor& cursor, std::span<const Field> inner_fields) {
    if (cursor.numbers.empty() || cursor.numbers[0] == 0) return;
    std::string_view bytes = cursor.blob;
    internal::take_sample(bytes, inner_fields, input_);
    make();
    given_ = cursor.numbers[0];
    if (given_ > 0 && given_ <= outputs_.size()) return;
    throw Error(ErrorCode::mismatch,
                fmt::format("go on in the midst of input {}: {} of its samples were handed out, and {} are "
                            "made of it now; use the same function, or start a new run",
                            to_string(input_.id()), given_, outputs_.size()));
  }

  bool next(StreamSample& out) override {
    while (given_ == outputs_.size()) {
      outputs_.clear();
      given_ = 0;
      if (!inner_->next(input_)) return false;
      make();
    }
    out.copy(outputs_[given_++]);
    return true;
  }

  void cursor(StreamCursor& out) const override {
    inner_->cursor(out);
    const std::size_t inner_bytes = out.blob.size();
    const bool is_midst = given_ < outputs_.size();
    if (is_midst) internal::append_sample(input_, out.blob);
    out.numbers.push_back(is_midst ? given_ : 0);
    out.numbers.push_back(static_cast<std::int64_t>(out.blob.size() - inner_bytes));
  }

 private:
  void make() {
    outputs_.clear();
    rule_.make(epoch_, input_, outputs_);
    const std::int64_t number = input_.id().output;
    const bool fits =
        number >= 0 && number <= (std::numeric_limits<std::int64_t>::max() - rule_.most) / rule_.most;
    if (outputs_.size() > rule_.most || !fits) {
      throw Error(ErrorCode::callback,
                  fmt::format("flat_map {}: {} samples were made of it, and no more than {} may be; raise "
                              "the option most, or lower it where they are applied again and again",
                              to_string(input_.id()), outputs_.size(), rule_.most));
    }
    for (std::int64_t k = 0; k < outputs_.size(); ++k) {
      StreamId id = input_.id();
      id.output = id.output * rule_.most + k;
      outputs_[k].set_id(id);
    }
  }

  std::unique_ptr<ShardStream> inner_;
  const Rule& rule_;
  std::int64_t epoch_;
  StreamSample input_;
  StreamOutputs outputs_;
  std::int64_t given_ = 0;
};

class FlatMap final : public internal::StreamAdaptor {
 public:
  FlatMap(std::shared_ptr<const StreamSource> source, FlatMapFunction make, FlatMapOptions options)
      : StreamAdaptor(std::move(source), 2, kTask),
        rule_{.make = std::move(make), .most = options.most},
        fields_(options.fields.empty() ? inner_fields() : options.fields),
        name_(std::move(options.name)) {
    if (!rule_.make) {
      throw Error(ErrorCode::invalid_argument,
                  "flat_map a stream: there is no function that makes samples (it is empty)");
    }
    internal::OptionCheck(kTask).in_range("most", rule_.most, 1);
    internal::check_fields(fields_, kTask, "fields", ErrorCode::invalid_argument);
  }

  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }

  [[nodiscard]] std::unique_ptr<ShardStream> open(ShardId shard, std::int64_t epoch,
                                                  const StreamCursor& cursor) const override {
    const SplitCursor parts = split(shard, cursor);
    auto stream = std::make_unique<FlatMapStream>(open_inner(shard, epoch, parts.inner), rule_, epoch,
                                                  inner_fields(), fields_);
    stream->restore(parts, inner_fields());
    return stream;
  }

  [[nodiscard]] std::unique_ptr<const StreamSource> for_worker(const WorkerInfo& worker) const override {
    auto own = internal::instance_of(inner(), worker);
    if (!own) return nullptr;
    return std::make_unique<FlatMap>(std::move(own), rule_.make,
                                     FlatMapOptions{.fields = fields_, .name = name_, .most = rule_.most});
  }

  [[nodiscard]] Fingerprint fingerprint() const override {
    FingerprintBuilder digest;
    digest.add("flat_map").add(to_string(inner().fingerprint())).add(name_).add(rule_.most);
    for (const Field& field : fields_) {
      digest.add(field.name).add(to_string(field.dtype)).add(field.shape).add(std::int64_t{field.ragged});
    }
    return digest.finish();
  }

 private:
  Rule rule_;
  std::vector<Field> fields_;
  std::string name_;
};

}  // namespace

std::shared_ptr<const StreamSource> flat_map(std::shared_ptr<const StreamSource> source, FlatMapFunction make,
                                             FlatMapOptions options) {
  return std::make_shared<FlatMap>(std::move(source), std::move(make), std::move(options));
}

}  // namespace rota
