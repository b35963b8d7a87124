// Data-parallel training of a small character model with MPI: weights, momentum and the loader's place are in
// one checkpoint, so they cannot disagree, and the run goes on at any world size with the loss of one that
// never stopped.
//
//   mpirun -n 4 train_mpi --checkpoint run --stop-after 100
//   mpirun -n 3 train_mpi --checkpoint run
//
// The model: 8 characters of context, embedded, through a hidden layer of tanh to the next character (Bengio
// et al., "A Neural Probabilistic Language Model", JMLR 2003), in double precision, by stochastic gradient
// descent.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

#include "rota/rota.hpp"

namespace {

constexpr std::int64_t kContext = 8;
constexpr std::int64_t kAlphabet = 128;

/// Windows of text: the `kContext` characters that begin at every `stride`-th place, and the one after them.
class TextWindows : public rota::Source {
 public:
  /// All files below `directory`, one after the other, symbolic links left out.
  TextWindows(const std::filesystem::path& directory, std::int64_t stride) : stride_(stride) {
    std::map<std::string, std::filesystem::path> files;  // sorted
    std::error_code error;
    std::filesystem::recursive_directory_iterator entry(directory, error);
    for (; !error && entry != std::filesystem::recursive_directory_iterator(); entry.increment(error)) {
      std::error_code unknown;  // of a file that is gone by now
      if (std::filesystem::is_regular_file(entry->symlink_status(unknown))) {
        files.emplace(entry->path().string(), entry->path());
      }
    }
    if (error) {
      throw rota::Error(rota::ErrorCode::io,
                        fmt::format("read the text in {}: {}", directory.string(), error.message()));
    }
    for (const auto& [name, path] : files) {
      std::ifstream file(path, std::ios::binary);
      text_.append(std::istreambuf_iterator<char>(file), {});
    }
    for (char& c : text_) c = static_cast<char>(c & 127);
  }

  [[nodiscard]] std::int64_t size() const override {
    return std::max<std::int64_t>(0, std::ssize(text_) - kContext - 1) / stride_;
  }
  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] rota::Fingerprint fingerprint() const override {
    return rota::FingerprintBuilder().add(text_).add(stride_).finish();
  }
  void read(std::span<const rota::SampleId> ids, const rota::BatchView& out) const override {
    rota::check_ids(*this, ids);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const char* window = text_.data() + ids[i].value * stride_;
      std::memcpy(out.bytes(0, i).data(), window, kContext);
      std::memcpy(out.bytes(1, i).data(), window + kContext, 1);
    }
  }

 private:
  std::int64_t stride_;
  std::string text_;
  std::vector<rota::Field> fields_{{.name = "context", .dtype = rota::DType::uint8, .shape = {kContext}},
                                   {.name = "next", .dtype = rota::DType::uint8}};
};

class CharModel {
 public:
  explicit CharModel(rota::World world) : world_(world), weights_(kWeights), velocity_(kWeights) {
    std::mt19937_64 random(1);
    for (double& w : weights_) w = (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * 0.3;
  }

  /// Adds the gradient of the sample's loss to `gradient` [kWeights], and returns the loss.
  double backward(const std::uint8_t* context, std::uint8_t next, std::span<double> gradient);

  /// One step down the mean gradient.
  void descend(std::span<const double> gradient, double rate) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      velocity_[i] = 0.9 * velocity_[i] - rate * gradient[i];
      weights_[i] += velocity_[i];
    }
  }

  /// Every rank holds all weights; each saves its share of the rows.
  void save(rota::Snapshot& snapshot) const {
    const std::int64_t first = rota::share(kWeights, world_.rank, world_.size);
    const std::int64_t rows = rota::share(kWeights, world_.rank + 1, world_.size) - first;
    for (const auto& [name, values] :
         {std::pair("model/weights", &weights_), {"model/velocity", &velocity_}}) {
      const auto mine = std::span<const double>(*values).subspan(static_cast<std::size_t>(first),
                                                                 static_cast<std::size_t>(rows));
      snapshot.tensor(name, {}, rows, mine);
    }
  }
  void restore(const rota::Checkpoint& checkpoint) {
    weights_ = checkpoint.read<double>("model/weights");
    velocity_ = checkpoint.read<double>("model/velocity");
  }

  static constexpr std::int64_t kEmbedding = 12;
  static constexpr std::int64_t kInput = kContext * kEmbedding;
  static constexpr std::int64_t kHidden = 48;
  static constexpr std::int64_t kWeights =
      kAlphabet * kEmbedding + (kInput + 1) * kHidden + (kHidden + 1) * kAlphabet;

 private:
  rota::World world_;
  std::vector<double> weights_;
  std::vector<double> velocity_;
};

double CharModel::backward(const std::uint8_t* context, std::uint8_t next, std::span<double> gradient) {
  const double* embedding = weights_.data();              // [kAlphabet, kEmbedding]
  const double* in = embedding + kAlphabet * kEmbedding;  // [kInput + 1, kHidden], the last row the bias
  const double* out = in + (kInput + 1) * kHidden;        // [kHidden + 1, kAlphabet]
  double* d_embedding = gradient.data();
  double* d_in = d_embedding + kAlphabet * kEmbedding;
  double* d_out = d_in + (kInput + 1) * kHidden;

  double x[kInput];
  for (std::int64_t c = 0; c < kContext; ++c)
    std::copy_n(embedding + context[c] * kEmbedding, kEmbedding, x + c * kEmbedding);
  double h[kHidden];
  std::copy_n(in + kInput * kHidden, kHidden, h);
  for (std::int64_t i = 0; i < kInput; ++i) {
    for (std::int64_t j = 0; j < kHidden; ++j) h[j] += x[i] * in[i * kHidden + j];
  }
  for (double& value : h) value = std::tanh(value);
  double p[kAlphabet];
  std::copy_n(out + kHidden * kAlphabet, kAlphabet, p);
  for (std::int64_t j = 0; j < kHidden; ++j) {
    for (std::int64_t k = 0; k < kAlphabet; ++k) p[k] += h[j] * out[j * kAlphabet + k];
  }
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value);
  for (double& value : p) value /= sum;
  const double loss = -std::log(p[next]);

  p[next] -= 1;  // now the gradient at the outputs
  double d_h[kHidden] = {};
  for (std::int64_t j = 0; j < kHidden; ++j) {
    for (std::int64_t k = 0; k < kAlphabet; ++k) {
      d_out[j * kAlphabet + k] += h[j] * p[k];
      d_h[j] += out[j * kAlphabet + k] * p[k];
    }
    d_h[j] *= 1 - h[j] * h[j];
  }
  for (std::int64_t k = 0; k < kAlphabet; ++k) d_out[kHidden * kAlphabet + k] += p[k];
  for (std::int64_t i = 0; i < kInput; ++i) {
    double d_x = 0;
    for (std::int64_t j = 0; j < kHidden; ++j) {
      d_in[i * kHidden + j] += x[i] * d_h[j];
      d_x += in[i * kHidden + j] * d_h[j];
    }
    d_embedding[context[i / kEmbedding] * kEmbedding + i % kEmbedding] += d_x;
  }
  for (std::int64_t j = 0; j < kHidden; ++j) d_in[kInput * kHidden + j] += d_h[j];
  return loss;
}

/// The losses of the steps: written down, and held against those of another run.
class LossCurve {
 public:
  LossCurve(const std::string& write_to, const std::string& compare_with) {
    if (!write_to.empty()) out_.open(write_to, std::ios::app);
    std::ifstream other(compare_with);
    std::int64_t step = 0;
    for (double loss = 0; other >> step >> loss;) expected_[step] = loss;
    if (!compare_with.empty() && expected_.empty()) {
      throw rota::Error(rota::ErrorCode::not_found, "read losses from " + compare_with + ": it holds none");
    }
  }
  void add(std::int64_t step, double loss) {
    if (out_.is_open()) out_ << fmt::format("{} {:.17g}\n", step, loss) << std::flush;
    if (expected_.empty()) return;
    const auto other = expected_.find(step);
    const double difference = other == expected_.end() ? 1 : std::abs(loss - other->second) / other->second;
    largest_ = std::max(largest_, difference);
    ++compared_;
  }
  /// Whether all were equal to 1e-9; says so.
  [[nodiscard]] bool is_same() const {
    if (expected_.empty()) return true;
    fmt::print("  {} losses compared with the other run: they differ by {:.1e} at most\n", compared_,
               largest_);
    return largest_ <= 1e-9;
  }

 private:
  std::ofstream out_;
  std::map<std::int64_t, double> expected_;
  double largest_ = 0;
  std::int64_t compared_ = 0;
};

struct Options {
  std::string data = "/usr/share/common-licenses";
  std::string checkpoint;
  std::int64_t batch = 256;
  std::int64_t epochs = 3;
  std::int64_t stop_after = 0;
  std::int64_t save_every = 50;
  std::string losses;
  std::string same_as;
};

/// The mean loss over the validation part.
double validate(const std::shared_ptr<const rota::Source>& source, CharModel& model,
                const rota::mpi::Session& session) {
  rota::Loader loader(session.comm(), source, {.global_batch_size = 1024, .shuffle = rota::Shuffle::none});
  std::vector<double> unused(CharModel::kWeights);
  double loss = 0;
  for (const rota::Batch& batch : loader) {
    const auto contexts = batch.tensor("context").as<std::uint8_t>();
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      loss += model.backward(&contexts[static_cast<std::size_t>(i * kContext)],
                             batch.tensor("next").as<std::uint8_t>()[static_cast<std::size_t>(i)], unused);
    }
  }
  session.comm().sum(std::span(&loss, 1));
  return loss / static_cast<double>(std::max<std::int64_t>(source->size(), 1));
}

/// One step: this rank's gradients, summed over ranks, divided by the real samples of all. Returns the mean
/// loss.
double train(const rota::Batch& batch, CharModel& model, std::vector<double>& gradient,
             const rota::mpi::Session& session) {
  std::fill(gradient.begin(), gradient.end(), 0.0);
  double& loss = gradient.back();  // rides along in the reduction
  const auto contexts = batch.tensor("context").as<std::uint8_t>();
  const auto nexts = batch.tensor("next").as<std::uint8_t>();
  for (std::size_t i = 0; i < nexts.size(); ++i) {
    if (batch.kinds()[i] == rota::SlotKind::sample)
      loss += model.backward(&contexts[i * kContext], nexts[i], gradient);
  }
  session.comm().sum(gradient);
  for (double& g : gradient) g /= static_cast<double>(batch.global_real());
  model.descend(std::span<const double>(gradient).first(CharModel::kWeights), 0.1);
  return loss;
}

/// How far the run is, how fast, and for which share of its time it waits for data.
void show(const rota::Loader& loader, double loss) {
  const rota::LoaderStats stats = loader.stats();
  const double waited = stats.waits.seconds();
  const double seconds = waited + stats.steps.seconds();
  fmt::print("  step {:4} of {}  loss {:.6f}  {:.0f} samples/s  waits {:.0f} %\n", loader.position().step,
             loader.steps(), loss, static_cast<double>(stats.samples * loader.world().size) / seconds,
             100 * waited / seconds);
}

int run(const Options& options, const rota::mpi::Session& session) {
  const bool speaks = session.world().rank == 0;
  const auto text = std::make_shared<TextWindows>(options.data, 9);
  const auto parts = rota::split(text, std::vector<double>{0.9, 0.1}, 5);
  rota::Loader loader(
      session.comm(), parts[0],
      {.global_batch_size = options.batch, .seed = 1, .epochs = options.epochs, .workers = 1});
  CharModel model(session.world());
  std::optional<rota::CheckpointDirectory> checkpoints;
  if (!options.checkpoint.empty()) {
    checkpoints.emplace(session.comm(), options.checkpoint);
    checkpoints->restore_all(loader, model);
  }
  const std::int64_t first_step = loader.position().step;
  if (speaks) {
    fmt::print("{} samples, {} ranks, from step {}\n", parts[0]->size(), session.world().size, first_step);
  }

  rota::StopSignal stop(session.comm());
  LossCurve curve(speaks ? options.losses : "", speaks ? options.same_as : "");
  std::vector<double> gradient(CharModel::kWeights + 1);
  while (!stop.requested() &&
         (options.stop_after == 0 || loader.position().step < first_step + options.stop_after)) {
    const auto batch = loader.next();
    if (!batch) break;
    const double loss = train(*batch, model, gradient, session);
    curve.add(batch->start().step, loss);
    if (speaks && loader.position().step % 50 == 0) show(loader, loss);
    if (!checkpoints) continue;
    if (loader.position().step % options.save_every == 0) {
      checkpoints->save_all_async(loader.position().step, loader, model);  // the next steps go on meanwhile
    } else {
      checkpoints->poll();
    }
  }
  if (checkpoints) checkpoints->save_all(loader.position().step, loader, model);
  const double validation = validate(parts[1], model, session);
  if (speaks) fmt::print("  at step {}: validation loss {:.6f}\n", loader.position().step, validation);
  std::int64_t is_same = speaks ? (curve.is_same() ? 1 : 0) : 1;
  session.comm().min(std::span(&is_same, 1));
  return is_same == 1 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Trains a character model, data-parallel; stops and goes on at any number of ranks.");
  app.add_option("--data", options.data, "Directory of text")->capture_default_str();
  app.add_option("--checkpoint", options.checkpoint, "Directory to go on from, and to save to");
  app.add_option("--batch", options.batch, "Global batch size")->capture_default_str();
  app.add_option("--epochs", options.epochs, "Passes over the text")->capture_default_str();
  app.add_option("--stop-after", options.stop_after, "Stop after so many steps of this run")
      ->check(CLI::PositiveNumber);
  app.add_option("--save-every", options.save_every, "Steps between saves, which go on in the background")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--losses", options.losses, "File to append every step's loss to");
  app.add_option("--same-as", options.same_as,
                 "File of losses of another run, which this one's must equal to 1e-9");
  CLI11_PARSE(app, argc, argv);
  rota::mpi::Session session(argc, argv);
  return session.run([&] { return run(options, session); });
}
