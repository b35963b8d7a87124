// Weather as a model sees it: days of hourly fields, one every six hours, over monthly files whose months
// follow one another, so that days reach from the end of one file into the next. Nothing is copied for their
// overlap. A run stops after some steps, and goes on at any number of ranks; in the end every day must have
// been seen once, and every value must have been right.
//
//   mpirun -n 4 climate_windows 20     # writes a small year, and stops after 20 steps
//   mpirun -n 3 climate_windows        # goes on to the end
//
// Files and checkpoints are kept in /tmp/climate_windows, or in a directory named as second argument: remove
// it to begin anew.

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <stdexcept>

#include "rota/rota.hpp"
#include "whole_number.hpp"

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLatitudes = 6;
constexpr std::int64_t kLongitudes = 12;
constexpr std::int64_t kCells = kLatitudes * kLongitudes;
constexpr std::int64_t kDay = 24;
constexpr std::int64_t kStride = 6;

/// What a cell has at an hour of the year: a temperature, or one of the two components of the wind.
float temperature(std::int64_t hour, std::int64_t cell) {
  return static_cast<float>(280 + 15 * std::sin(static_cast<double>(hour) * 0.26) +
                            static_cast<double>(cell) + 0.001 * static_cast<double>(hour));
}
float wind(std::int64_t hour, std::int64_t component, std::int64_t cell) {
  return static_cast<float>(8 * std::cos(static_cast<double>(hour * (component + 1)) * 0.11) +
                            0.1 * static_cast<double>(cell));
}

hid_t check(hid_t status) {
  if (status < 0) throw std::runtime_error("write the months: HDF5 fails");
  return status;
}

/// A dataset [hours, extents...] in deflated chunks of a day, as archives keep them.
void write_field(hid_t file, const char* name, std::vector<hsize_t> extents,
                 const std::vector<float>& values) {
  const hid_t space = check(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr));
  const hid_t options = check(H5Pcreate(H5P_DATASET_CREATE));
  extents[0] = kDay;
  check(H5Pset_chunk(options, static_cast<int>(extents.size()), extents.data()));
  check(H5Pset_deflate(options, 1));
  const hid_t data = check(H5Dcreate2(file, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, options, H5P_DEFAULT));
  check(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()));
  check(H5Dclose(data));
  check(H5Pclose(options));
  check(H5Sclose(space));
}

void write_month(const fs::path& path, std::int64_t first, std::int64_t hours) {
  std::vector<float> t2m;
  std::vector<float> both;
  for (std::int64_t hour = first; hour < first + hours; ++hour) {
    for (std::int64_t cell = 0; cell < kCells; ++cell) t2m.push_back(temperature(hour, cell));
    for (std::int64_t component = 0; component < 2; ++component) {
      for (std::int64_t cell = 0; cell < kCells; ++cell) both.push_back(wind(hour, component, cell));
    }
  }
  const auto rows = static_cast<hsize_t>(hours);
  const hid_t file = check(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  write_field(file, "t2m", {rows, kLatitudes, kLongitudes}, t2m);
  write_field(file, "wind", {rows, 2, kLatitudes, kLongitudes}, both);
  check(H5Fclose(file));
}

/// The months of 2023, named so that their order is that of time; by rank 0, where they are not there.
void write_year(const rota::mpi::Session& session, const fs::path& directory) {
  session.comm().together("write the months", [&] {
    if (session.world().rank != 0 || fs::exists(directory)) return;
    const fs::path unfinished = directory.string() + ".unfinished";
    fs::create_directories(unfinished);
    std::int64_t first = 0;
    for (unsigned month = 1; month <= 12; ++month) {
      const auto last_day = std::chrono::year(2023) / std::chrono::month(month) / std::chrono::last;
      const auto hours = kDay * static_cast<std::int64_t>(static_cast<unsigned>(last_day.day()));
      write_month(unfinished / fmt::format("2023-{:02}.h5", month), first, hours);
      first += hours;
    }
    fs::rename(unfinished, directory);
  });
}

/// How often each window was seen, over all ranks and all starts of the program, and whether it was right.
class Seen {
 public:
  Seen(std::int64_t windows, const rota::Communicator& comm)
      : comm_(comm), total_(static_cast<std::size_t>(windows)), mine_(total_.size() + 1) {}

  void add(const rota::Batch& batch) {
    const auto t2m = batch.tensor("t2m").as<float>();    // [size, 24, lat, lon]
    const auto both = batch.tensor("wind").as<float>();  // [size, 24, 2, lat, lon]
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const std::int64_t id = batch.ids()[static_cast<std::size_t>(i)].value;
      ++mine_[static_cast<std::size_t>(id)];
      for (std::int64_t k = 0; k < kDay * kCells; ++k) {
        const std::int64_t hour = id * kStride + k / kCells;
        const std::int64_t cell = k % kCells;
        const std::int64_t at = i * kDay * kCells + k;
        const std::int64_t east = 2 * (at - cell) + cell;
        const bool is_right = t2m[static_cast<std::size_t>(at)] == temperature(hour, cell) &&
                              both[static_cast<std::size_t>(east)] == wind(hour, 0, cell) &&
                              both[static_cast<std::size_t>(east + kCells)] == wind(hour, 1, cell);
        mine_.back() += is_right ? 0 : 1;
      }
    }
  }
  /// **Collective.** Makes what all ranks have seen known to each.
  void join() {
    comm_.sum(mine_);
    for (std::size_t i = 0; i < total_.size(); ++i) total_[i] += std::exchange(mine_[i], 0);
    wrong_ += std::exchange(mine_.back(), 0);
  }
  /// Every rank has the total; each saves its share of the rows.
  void save(rota::Snapshot& snapshot) const {
    const auto rows = std::ssize(total_);
    const std::int64_t first = rota::share(rows, comm_.rank(), comm_.size());
    const std::int64_t count = rota::share(rows, comm_.rank() + 1, comm_.size()) - first;
    snapshot.tensor("seen", {}, count,
                    std::span<const std::int64_t>(total_).subspan(static_cast<std::size_t>(first),
                                                                  static_cast<std::size_t>(count)));
  }
  void restore(const rota::Checkpoint& checkpoint) { total_ = checkpoint.read<std::int64_t>("seen"); }

  [[nodiscard]] std::int64_t times(std::int64_t n) const {
    return std::count(total_.begin(), total_.end(), n);
  }
  [[nodiscard]] std::int64_t wrong() const { return wrong_; }

 private:
  const rota::Communicator& comm_;
  std::vector<std::int64_t> total_;
  std::vector<std::int64_t> mine_;  // not in there yet; behind it, how many cells were wrong
  std::int64_t wrong_ = 0;
};

/// How many windows reach from one month into the next.
std::int64_t count_seams(const rota::Source& hours, std::int64_t windows) {
  std::int64_t crossing = 0;
  std::int64_t seam = 0;
  for (const std::int64_t month : hours.part_sizes()) {
    seam += month;
    for (std::int64_t i = 0; i < windows; ++i) {
      crossing += i * kStride < seam && seam < i * kStride + kDay ? 1 : 0;
    }
  }
  return crossing;
}

int run(const rota::mpi::Session& session, std::int64_t steps, const fs::path& directory) {
  const bool speaks = session.world().rank == 0;
  write_year(session, directory / "data");
  const rota::Catalog catalog(session.comm(), directory / "data");
  const std::shared_ptr<const rota::Source> hours =
      rota::open(catalog, rota::Hdf5Options{.datasets = {"t2m", "wind"}});
  const std::shared_ptr<const rota::Source> days =
      rota::windows(hours, {.length = kDay, .stride = kStride, .across_files = true});

  rota::Loader loader(session.comm(), days, {.global_batch_size = 32, .seed = 1, .workers = 2});
  rota::CheckpointDirectory checkpoints(session.comm(), directory / "checkpoints");
  Seen seen(days->size(), session.comm());
  checkpoints.restore_all(loader, seen);
  if (speaks) {
    fmt::print(
        "{} hours in {} files, {} days, {} of which cross into the next file; {} ranks, from step {}\n",
        hours->size(), hours->part_sizes().size(), days->size(), count_seams(*hours, days->size()),
        session.world().size, loader.position().step);
  }
  bool is_over = false;
  for (std::int64_t k = 0; (steps == 0 || k < steps) && !is_over; ++k) {
    const auto batch = loader.next();
    if (batch) seen.add(*batch);  // train on it
    is_over = !batch;
  }
  seen.join();
  checkpoints.save_all(loader.position().step, loader, seen);
  const bool is_right =
      seen.wrong() == 0 && (is_over ? seen.times(1) : seen.times(0) + seen.times(1)) == days->size();
  if (speaks) {
    fmt::print("  step {}: {} days seen once, {} not yet, {} values wrong{}\n", loader.position().step,
               seen.times(1), seen.times(0), seen.wrong(), is_over ? "; that was the epoch" : "");
  }
  return is_right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  return session.run([&] {
    const std::int64_t steps = argc > 1 ? whole_number("the number of steps", argv[1]) : 0;
    return run(session, steps, argc > 2 ? fs::path(argv[2]) : fs::temp_directory_path() / "climate_windows");
  });
}
