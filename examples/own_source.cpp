// A source of one's own in 30 lines: a flat file of fixed-size records. Order, schedule, cursors, worker
// threads and checkpoints come with it. Each worker has an instance for itself, which may then hold what
// threads must not share: here a buffered file with its place, as it might be a connection or a decoder.

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
  explicit RecordFile(std::string path) : path_(std::move(path)), file_(path_, std::ios::binary) {
    if (!file_) throw rota::Error(rota::ErrorCode::not_found, "open " + path_ + ": there is no such file");
    size_ = static_cast<std::int64_t>(std::filesystem::file_size(path_)) / kBytes;
  }

  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::string where(rota::SampleId /*id*/) const override { return path_; }

  // Leave this out where many threads may read at once (with pread, say): all workers then share one source.
  [[nodiscard]] std::unique_ptr<const Source> for_worker(const rota::WorkerInfo& /*worker*/) const override {
    return std::make_unique<RecordFile>(path_);
  }

  void read(std::span<const rota::SampleId> ids, const rota::BatchView& out) const override {
    rota::check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto record = out.bytes(0, i);
      file_.clear();
      file_.seekg(ids[i].value * kBytes);
      if (!file_.read(reinterpret_cast<char*>(record.data()), std::ssize(record)))
        throw rota::Error(rota::ErrorCode::io, "read " + path_ + ": it is too short");
    }
  }

 private:
  static constexpr std::int64_t kBytes = 16;
  std::string path_;
  mutable std::ifstream file_;  // of one thread alone
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
