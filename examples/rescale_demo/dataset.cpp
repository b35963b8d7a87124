#include "dataset.hpp"

#include "rota/open.hpp"
#include "rota/packing.hpp"

namespace rescale_demo {

std::shared_ptr<const rota::Source> open_dataset(const RunOptions& run, const rota::Communicator& comm) {
  std::shared_ptr<const rota::Source> source = rota::open(comm, run.data, run.format);
  if (run.pack_length) {
    source = rota::pack(comm, source, {.length = *run.pack_length, .seed = run.loader.seed});
  }
  if (run.window) source = rota::windows(source, *run.window);
  return source;
}

}  // namespace rescale_demo
