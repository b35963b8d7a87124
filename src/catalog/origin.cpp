#include "catalog/origin.hpp"

#include <fmt/format.h>

#include "catalog/manifest.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

FileList list_files_of_manifest(const std::shared_ptr<const Crew>& crew, Evidence evidence,
                                const std::string& path) {
  std::vector<std::int64_t> samples;  // on rank 0
  FileList files(crew, evidence, [&](const NameVisitor& visit) {
    std::string directory = list_manifest(path, visit, samples);
    if (samples.empty() || crew->options.placement == Placement::node_shared) return directory;
    throw Error(
        ErrorCode::unsupported,
        fmt::format("read the manifest {}: it tells numbers of samples, and in a distributed catalog each "
                    "file is one; leave them out, or use Placement::node_shared",
                    path));
  });
  files.expect(samples);
  return files;
}

}  // namespace

FileList list_origin(const std::shared_ptr<const Crew>& crew, const Origin& origin, Evidence evidence,
                     const std::string& shown) {
  if (origin.kind == Origin::Kind::manifest) return list_files_of_manifest(crew, evidence, shown);
  return FileList::list(crew, evidence, shown);
}

}  // namespace rota
