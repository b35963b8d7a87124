// A source of one's own in 30 lines: a flat file of fixed-size records. Order, schedule, cursors, worker
// threads and checkpoints come with it.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "rota/rota.hpp"

namespace {

/// Records of 4 floats, one after the other.
class RecordFile : public rota::Source {
 public:
  explicit RecordFile(std::string path) : path_(std::move(path)), descriptor_(open(path_.c_str(), O_RDONLY)) {
    if (descriptor_ < 0)
      throw rota::Error(rota::ErrorCode::not_found, "open " + path_ + ": there is no such file");
    size_ = lseek(descriptor_, 0, SEEK_END) / kBytes;
  }
  ~RecordFile() override { close(descriptor_); }

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string where(rota::SampleId /*id*/) const override { return path_; }

  void read(std::span<const rota::SampleId> ids, const rota::BatchView& out) const override {
    rota::check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto record = out.bytes(0, i);
      const ssize_t got = pread(descriptor_, record.data(), record.size(), ids[i].value * kBytes);
      if (got != std::ssize(record))
        throw rota::Error(rota::ErrorCode::io, "read " + path_ + ": it is too short");
    }
  }

 private:
  static constexpr std::int64_t kBytes = 16;
  std::string path_;
  int descriptor_;
  std::int64_t size_ = 0;
  std::vector<rota::Field> fields_{{.name = "x", .dtype = rota::DType::float32, .shape = {4}}};
};

}  // namespace

int main() {
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("own_source-{}.bin", getpid());
  std::vector<float> values(4000);
  std::iota(values.begin(), values.end(), 0.0F);
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(values.data()), 16000);

  rota::Loader loader(std::make_shared<RecordFile>(path), {.global_batch_size = 64, .workers = 2});
  double sum = 0;
  for (const rota::Batch& batch : loader) {
    for (const float x : batch.tensor("x").as<float>()) sum += x;
  }
  std::filesystem::remove(path);
  fmt::print("the sum of all {} records is {}\n", loader.source().size(), sum);
  return sum == 3999.0 * 4000 / 2 ? 0 : 1;
}
