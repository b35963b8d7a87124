// A source is told for which epoch a sample is read, whatever is made of it.

#include "source/reading.hpp"

namespace rota::test::epochs_test {

/// Sample i is 1,000 times the epoch, and i.
class SamplesOfEpochs final : public Source {
 public:
  std::int64_t size() const override { return 10; }
  const std::vector<Field>& fields() const override { return fields_; }
  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto value = static_cast<std::int32_t>(1000 * out.epoch(i) + ids[i].value);
      std::memcpy(out.bytes(0, i).data(), &value, sizeof(value));
    }
  }

 private:
  std::vector<Field> fields_{{.name = "x", .dtype = DType::int32}};
};

using Made = std::shared_ptr<const Source>;

Made samples() { return std::make_shared<SamplesOfEpochs>(); }

void expect_epochs(const Tensor& tensor, std::span<const std::int64_t> epochs) {
  const auto values = tensor.as<std::int64_t>();
  const std::size_t each = values.size() / std::max<std::size_t>(epochs.size(), 1);
  for (std::size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k] / 1000, epochs[k / each]);
}

TEST(Epochs, AreToldToASourceUnderAllThatIsMadeOfIt) {
  const std::map<std::string, DType> wide{{"x", DType::int64}};
  const std::vector<Made> all{cast(samples(), wide),
                              cast(join({samples(), samples()}), wide),
                              split(cast(samples(), wide), {0.9, 0.1}, 1)[0],
                              zip({select(skip_first(cast(samples(), wide), 2), ids({3, 3, 0, 7}))}),
                              windows(cast(samples(), wide), {.length = 3}),
                              cast(windows(samples(), {.length = 3, .stride = 2}), wide),
                              windows(cast(samples(), wide), {.offsets = {-2, 0, 1}, .edges = Edges::clamp})};
  for (const Made& source : all) {
    for (const Shuffle shuffle : {Shuffle::none, Shuffle::global}) {
      Loader loader(
          source,
          {.global_batch_size = 7, .shuffle = shuffle, .tail = Tail::carry, .epochs = 4, .workers = 2});
      while (const auto batch = loader.next()) expect_epochs(batch->tensor(0), batch->epochs());
    }
  }
}

TEST(Epochs, AreToldWhereATransformMakesOtherFields) {
  LoaderOptions options{.global_batch_size = 7, .tail = Tail::carry, .epochs = 3, .workers = 2};
  options.transform.fields = {{.name = "wide", .dtype = DType::int64}};
  options.transform.apply = [](const TransformContext& /*context*/, const SampleView& in, SampleOutput& out) {
    out.as<std::int64_t>(0)[0] = in.as<std::int32_t>(0)[0];
  };
  Loader loader(samples(), options);
  while (const auto batch = loader.next()) expect_epochs(batch->tensor(0), batch->epochs());
}

TEST(Epochs, AreToldOfWhatComesAgain) {
  Loader loader(cast(samples(), {{"x", DType::int64}}),
                {.global_batch_size = 4, .epochs = 3, .settle = Settle::by_hand});
  int came_again = 0;
  for (bool was_given_up = false; const auto batch = loader.next();) {
    expect_epochs(batch->tensor(0), batch->epochs());
    came_again += batch->is_again() ? 1 : 0;
    if (batch->is_again() || was_given_up || batch->epochs()[0] != 1) {
      loader.settle(*batch);
    } else {
      loader.again(*batch);
      was_given_up = true;
    }
  }
  EXPECT_GE(came_again, 1);
}

TEST(Epochs, AreToldWhereASourceIsAStream) {
  StreamLoader loader(as_stream(cast(samples(), {{"x", DType::int64}}), 2),
                      {.global_batch_size = 4, .epochs = 3});
  while (const auto batch = loader.next()) expect_epochs(batch->tensor(0), batch->epochs());
}

TEST(Epochs, AreZeroWhereNobodySays) {
  EXPECT_EQ(Samples(*samples(), ids({3, 7})).values<std::int32_t>(0, 1), std::vector<std::int32_t>{7});
  const std::vector<std::int64_t> epochs{4, 5, 6};
  const BatchView view({}, 0, 3, epochs);
  EXPECT_EQ(view.part(1, 2).epoch(1), 6);
  EXPECT_EQ(BatchView({}, 0, 3).part(1, 2).epoch(1), 0);
}

}  // namespace rota::test::epochs_test
