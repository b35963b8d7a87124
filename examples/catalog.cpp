// All ranks make a catalog together: listed, or of computed names, or from a list. It is opened, warmed up
// and, where it was listed, saved.
//
//   mpirun -n 4 catalog data data.rota
//   mpirun -n 4 catalog 'train/img_{index:08}_of_{total}.npz'
//   mpirun -n 4 catalog 'train/img_{index:08}.npz' 1000000
//   mpirun -n 4 catalog --manifest files.txt

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "rota/rota.hpp"
#include "whole_number.hpp"

namespace {

bool is_pattern(const std::string& what) { return what.find('{') != std::string::npos; }

rota::Catalog make_catalog(const rota::Communicator& comm, const std::string& what, const std::string& last,
                           const rota::CatalogOptions& options) {
  if (what == "--manifest") return rota::Catalog::from_manifest(comm, last, options);
  if (is_pattern(what)) {
    // None: {total} in the names says it.
    const std::int64_t files = last == what ? 0 : whole_number("the number of files", last);
    return rota::Catalog::from_pattern(comm, what, {.files = files}, options);
  }
  return rota::Catalog(comm, what, options);
}

}  // namespace

int main(int argc, char** argv) {
  rota::mpi::Session session(argc, argv);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return session.run([&] {
    const std::string what = arguments.empty() ? "/usr/include/linux" : arguments.front();
    const bool is_first = session.world().rank == 0;
    const auto tell = [&](const rota::Progress& progress) {
      if (is_first) fmt::print("{}: {} files, {:.1f} s\n", progress.task, progress.done, progress.seconds);
    };
    const rota::Catalog catalog =
        make_catalog(session.comm(), what, arguments.empty() ? "" : arguments.back(),
                     {.change_detection = rota::ChangeDetection::by_name, .progress = tell});
    rota::Loader loader(session.comm(), rota::open(catalog), {.global_batch_size = 64, .workers = 2});
    loader.warm_up();
    std::int64_t samples = 0;
    for (const rota::Batch& batch : loader) samples += batch.size();
    session.comm().sum(std::span(&samples, 1));
    if (is_first) fmt::print("{} files, {} samples read\n", catalog.size(), samples);
    if (what != "--manifest" && !is_pattern(what) && arguments.size() == 2) catalog.save(arguments[1]);
    return 0;
  });
}
