// A source of the stranger's own, read to the end: every sample once.

#include <cstdint>
#include <iostream>
#include <memory>
#include <rota/rota.hpp>
#include <set>
#include <span>
#include <vector>

namespace {

class Squares : public rota::Source {
 public:
  std::int64_t size() const override { return 1000; }
  const std::vector<rota::Field>& fields() const override { return fields_; }
  void read(std::span<const rota::SampleId> ids, const rota::BatchView& out) const override {
    auto* values = reinterpret_cast<std::int64_t*>(out.all(0).data());
    for (const rota::SampleId id : ids) *values++ = id.value * id.value;
  }

 private:
  std::vector<rota::Field> fields_{{.name = "square", .dtype = rota::DType::int64}};
};

}  // namespace

int main() {
  rota::Loader loader(std::make_shared<Squares>(), {.global_batch_size = 32});
  std::set<std::int64_t> seen;
  for (const rota::Batch& batch : loader) {
    const auto squares = batch.tensor("square").as<std::int64_t>();
    seen.insert(squares.begin(), squares.end());
  }
  std::cout << seen.size() << " different squares\n";
  return seen.size() == 1000 ? 0 : 1;
}
