#pragma once

// What the tests of sources do: read samples into memory, and look at errors.

#include <initializer_list>

#include "test.hpp"

namespace rota::test {

using enum ErrorCode;

using Ids = std::vector<SampleId>;

inline Ids ids(std::initializer_list<std::int64_t> values) {
  Ids result;
  for (const std::int64_t value : values) result.push_back({value});
  return result;
}

inline Ids all_ids(const Source& source) {
  Ids result(static_cast<std::size_t>(source.size()));
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = {static_cast<std::int64_t>(i)};
  return result;
}

/// `count` ids at random, some of them several times.
inline Ids random_ids(const Source& source, std::size_t count, std::mt19937_64& random) {
  std::uniform_int_distribution<std::int64_t> any(0, source.size() - 1);
  Ids result(count);
  for (SampleId& id : result) id = {any(random)};
  return result;
}

/// Samples read in one call, and parts of them in another: sample(f, i) is the bytes of field f of the i-th.
class Samples {
 public:
  Samples(const Source& source, const Ids& wanted, bool reads_parts = true, std::int64_t epoch = 0) {
    const auto& fields = source.fields();
    memory_.resize(fields.size());
    data_.resize(fields.size());
    offsets_.resize(fields.size());
    for (std::size_t f = 0; f < fields.size(); ++f) {
      Numbers rows(wanted.size(), 1);
      if (fields[f].ragged) source.rows(wanted, f, rows);
      offsets_[f].assign(1, 0);
      std::partial_sum(rows.begin(), rows.end(), std::back_inserter(offsets_[f]));
      data_[f].assign(static_cast<std::size_t>(offsets_[f].back()) * fields[f].row_bytes(), std::byte{0xA5});
      memory_[f] = {data_[f].data(), fields[f].row_bytes(), fields[f].ragged ? offsets_[f].data() : nullptr};
    }
    source.read(wanted, BatchView(memory_, 0, wanted.size(), Numbers(wanted.size(), epoch)));
    for (std::size_t f = 0; reads_parts && f < fields.size(); ++f) {
      if (fields[f].ragged) expect_parts(source, wanted, f);
    }
  }

  std::string sample(std::size_t f, std::size_t i) const {
    const std::size_t row_bytes = memory_[f].row_bytes;
    const auto first = static_cast<std::size_t>(offsets_[f][i]);
    const auto last = static_cast<std::size_t>(offsets_[f][i + 1]);
    return {reinterpret_cast<const char*>(data_[f].data()) + first * row_bytes, (last - first) * row_bytes};
  }

  // Parts that are read alone are the same as in the whole.
  void expect_parts(const Source& source, const Ids& wanted, std::size_t f) const {
    std::mt19937_64 random(wanted.size());
    std::vector<SampleRows> parts;
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::string> expected;
    for (std::size_t k = 0; k < 2 * wanted.size(); ++k) {
      const std::size_t i = k / 2;
      const std::int64_t rows = offsets_[f][i + 1] - offsets_[f][i];
      const std::int64_t first = draw(random, 0, rows);
      const std::int64_t count = draw(random, 0, rows - first);
      const std::size_t row_bytes = memory_[f].row_bytes;
      memory.emplace_back(static_cast<std::size_t>(count) * row_bytes);
      parts.push_back({.id = wanted[i], .first = first, .count = count, .to = memory.back().data()});
      expected.push_back(
          sample(f, i).substr(static_cast<std::size_t>(first) * row_bytes, memory.back().size()));
    }
    source.read_rows(parts, f);
    for (std::size_t k = 0; k < memory.size(); ++k) {
      EXPECT_EQ(text_of(memory[k]), expected[k])
          << "rows from " << parts[k].first << " on of sample " << parts[k].id.value;
    }
  }

  template <typename T>
  std::vector<T> values(std::size_t f, std::size_t i) const {
    const std::string bytes = sample(f, i);
    std::vector<T> result(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }

 private:
  std::vector<BatchView::FieldMemory> memory_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<Numbers> offsets_;
};

/// How many samples a loader still gives.
std::int64_t samples_left(auto& loader) {
  std::int64_t samples = 0;
  while (const auto batch = loader.next()) samples += batch->size();
  return samples;
}

/// The Error that `action` throws, if any.
template <typename Action>
std::optional<Error> error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// An Error of this code whose message says all of `words`.
inline auto is_error(ErrorCode code, const std::vector<std::string>& words = {}) {
  std::vector<Matcher<const std::string&>> says;
  for (const std::string& word : words) says.push_back(HasSubstr(word));
  return Optional(
      AllOf(Property(&Error::code, code),
            ResultOf([](const Error& error) { return std::string(error.what()); }, AllOfArray(says))));
}

/// `call` throws an Error of a code, whose message says all words of a list: EXPECT_ERROR(open(x), io,
/// {"x"}).
#define EXPECT_ERROR(call, ...) EXPECT_THAT(error_of([&] { static_cast<void>(call); }), is_error(__VA_ARGS__))

}  // namespace rota::test
