#include "source/reading.hpp"
#include "source/told_source.hpp"

namespace rota::test::views_test {

// ---- what compiles ----

template <typename B>
concept GivesViews = requires(B&& batch) {
  std::forward<B>(batch).ids();
  std::forward<B>(batch).fields();
  std::forward<B>(batch).tensor(std::size_t{0});
  std::forward<B>(batch).tensor("x");
  std::forward<B>(batch).bytes(std::size_t{0}, std::int64_t{0});
};
template <typename B>
concept GivesSomeView = requires(B&& batch) {
  std::forward<B>(batch).ids();
}
|| requires(B&& batch) { std::forward<B>(batch).fields(); }
|| requires(B&& batch) { std::forward<B>(batch).tensor(std::size_t{0}); }
|| requires(B&& batch) { std::forward<B>(batch).tensor("x"); }
|| requires(B&& batch) { std::forward<B>(batch).bytes(std::size_t{0}, std::int64_t{0}); }
|| requires(B&& batch) { std::forward<B>(batch).kinds(); }
|| requires(B&& batch) { std::forward<B>(batch).epochs(); }
|| requires(B&& batch) { std::forward<B>(batch).datasets(); }
|| requires(B&& batch) { std::forward<B>(batch).slots(); }
|| requires(B&& batch) { std::forward<B>(batch).stream_ids(); }
|| requires(B&& batch) { std::forward<B>(batch).positions(); };

template <typename B>
concept IsSafe = GivesViews<B&> && GivesViews<const B&> && !GivesSomeView<B> && !GivesSomeView<const B>;
static_assert(IsSafe<Batch>);

template <typename L>
concept GivesViewsOfWhatIsGone = requires(L& loader) {
  loader.next()->size();
}
|| requires(L& loader) { loader.next()->ids(); }
|| requires(L& loader) { std::as_const(*loader.next()).ids(); }
|| requires(L& loader) { (*loader.next()).ids(); }
|| requires(L& loader) { loader.next().value().tensor(std::size_t{0}); };
template <typename L>
concept GivesNumbers = requires(L& loader) {
  (*loader.next()).size();
  (*loader.next()).start().step;
  loader.next().value().size();
};
static_assert(!GivesViewsOfWhatIsGone<Loader> && GivesNumbers<Loader>);
static_assert(!GivesViewsOfWhatIsGone<StreamLoader> && GivesNumbers<StreamLoader>);

template <typename L>
concept IteratorsOutliveTheirBatch = requires(L& loader) {
  *loader.begin();
}
|| requires(L& loader) { loader.begin()->ids(); };
static_assert(!IteratorsOutliveTheirBatch<Loader>);

Loader make_loader() { return {counting(100), {.global_batch_size = 10, .shuffle = Shuffle::none}}; }

TEST(NextBatch, IsAnOptionalWhereItHasAName) {
  Loader loader = make_loader();
  std::optional<Batch> optional = loader.next();
  EXPECT_EQ(optional->size(), 10);
  optional = loader.next();
  EXPECT_EQ(optional->start().step, 1);
  if (auto batch = loader.next(); batch) {
    EXPECT_EQ(batch->ids()[0].value, 20);
    batch = loader.next();
    EXPECT_EQ(batch.value().ids()[0].value, 30);
    batch.reset();
    EXPECT_FALSE(batch.has_value());
  }
  std::int64_t steps = 4;
  while (const auto batch = loader.next()) EXPECT_EQ((*batch).ids()[0].value, 10 * steps++);
  EXPECT_EQ(steps, 10);
  EXPECT_THROW((void)(loader.next().value()), Error);
  EXPECT_THROW((void)(*loader.next()), Error);
}

TEST(NextBatch, HandsABatchOutByValueWhereItHasNone) {
  Loader loader = make_loader();
  const Batch& first = *loader.next();
  const Batch& second = loader.next().value();
  EXPECT_EQ(first.ids()[9].value, 9);
  EXPECT_EQ(second.ids()[9].value, 19);
  const Batch third = *loader.next();
  EXPECT_EQ(third.ids()[9].value, 29);
}

// ---- types ----

template <typename T>
bool can_view(DType dtype) {
  alignas(8) std::array<std::byte, 16> memory{};
  const std::vector<Field> fields{{.name = "weights", .dtype = dtype, .shape = {2}}};
  const std::vector<std::span<std::byte>> bytes{memory};
  const Tensor tensor{.field = fields.data(), .bytes = memory};
  const SampleView sample{.fields = fields, .bytes = bytes};
  const auto refusal = error_of([&] { EXPECT_EQ(tensor.as<T>().size(), 16 / sizeof(T)); });
  const auto as_sample = error_of([&] { EXPECT_EQ(sample.as<T>(0).size(), 16 / sizeof(T)); });
  const auto as_const = error_of([&] { (void)tensor.as<const T>(); });
  EXPECT_EQ(as_sample.has_value(), refusal.has_value());
  EXPECT_EQ(as_const.has_value(), refusal.has_value());
  for (const auto& error : {refusal, as_sample, as_const}) {
    if (!error) return true;
    EXPECT_THAT(error, is_error(mismatch, {fmt::format("field \"weights\" as {}", to_string(kDTypeOf<T>)),
                                           fmt::format("its elements are {}", to_string(dtype))}));
  }
  return false;
}

template <typename... T>
void expect_only_their_own() {
  for (int d = 0; d <= static_cast<int>(DType::float64); ++d) {
    const auto dtype = static_cast<DType>(d);
    EXPECT_TRUE(((can_view<T>(dtype) == (kDTypeOf<T> == dtype)) && ...)) << to_string(dtype);
    const bool is_16_bits = dtype == DType::uint16 || dtype == DType::float16 || dtype == DType::bfloat16;
    EXPECT_EQ(can_view<std::uint16_t>(dtype), is_16_bits) << to_string(dtype);
    EXPECT_TRUE(can_view<std::byte>(dtype)) << to_string(dtype);
  }
}

TEST(Views, AreOfTheFieldsTypeOrOfBytesOrOfTheBitsOfShortFloats) {
  expect_only_their_own<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                        std::uint32_t, std::uint64_t, float, double>();
}

TEST(Views, OfShortFloatsSayHowToReadThem) {
  const Field field{.name = "x", .dtype = DType::bfloat16};
  const Tensor tensor{.field = &field};
  EXPECT_ERROR(tensor.as<float>(), mismatch, {"uint16", "to_floats"});
  EXPECT_TRUE(Tensor{}.as<float>().empty());
}

TEST(Views, OfFieldsAndSamplesThatThereAreNotAreRefused) {
  Loader loader = make_loader();
  const auto batch = loader.next();
  const auto is_none = [](const std::string& why) { return is_error(out_of_range, {why}); };
  EXPECT_THAT(error_of([&] { (void)batch->tensor(2); }), is_none("field 2: there are 2"));
  EXPECT_THAT(error_of([&] { (void)batch->bytes(2, 0); }), is_none("field 2: there are 2"));
  for (const std::int64_t i : {-1, 10}) {
    EXPECT_THAT(error_of([&] { (void)batch->bytes(0, i); }), is_none("it has 10"));
  }
  NextBatch none;
  EXPECT_THAT(error_of([&] { (void)*none; }), is_none("the run is over"));
  EXPECT_THAT(error_of([&] { (void)none->size(); }), is_none("the run is over"));
  EXPECT_THAT(error_of([] { (void)SampleView{}.as<float>(0); }), is_none("there are 0"));
}

}  // namespace rota::test::views_test
