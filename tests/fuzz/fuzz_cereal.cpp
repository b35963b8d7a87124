// What cereal reads from a blob. Input: the blob.

#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <map>
#include <optional>

#include "rota/cereal.hpp"
#include "target.hpp"

namespace {

struct Part {
  bool flag = false;
  std::vector<std::string> names;
  std::map<std::int32_t, std::vector<double>> table;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(flag, names, table);
  }
};

struct Whole {
  std::vector<Part> parts;
  std::vector<bool> mask;
  std::optional<float> rate;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(parts, mask, rate);
  }
};

}  // namespace

std::vector<std::string> rota::test::seeds() {
  const Part part{.flag = true, .names = {"a", "", "bc"}, .table = {{-1, {1.5, 2}}, {7, {}}}};
  return {rota::to_blob(Whole{}),
          rota::to_blob(Whole{.parts = {part, {}, part}, .mask = {true, false}, .rate = 1})};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto whole = rota::from_blob<Whole>({reinterpret_cast<const char*>(data), size});
    ROTA_FUZZ_EXPECT(rota::to_blob(whole).size() <= size);  // less where a key of a map came twice
  } catch (const rota::Error& error) {
    ROTA_FUZZ_EXPECT(error.code() == rota::ErrorCode::corrupt);
  }
  return 0;
}
