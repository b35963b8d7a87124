#include "catalog/origin.hpp"

#include "catalog/manifest.hpp"

namespace rota::internal {
namespace {

FileList list_files_of_manifest(const std::shared_ptr<const Crew>& crew, Evidence evidence,
                                const std::string& path) {
  std::vector<std::int64_t> samples;  // on rank 0
  FileList files(crew, evidence,
                 [&](const NameVisitor& visit) { return list_manifest(path, visit, samples); });
  files.expect(samples);
  return files;
}

}  // namespace

FileList list_origin(const std::shared_ptr<const Crew>& crew, const Origin& origin, Evidence evidence,
                     const std::string& shown) {
  if (origin.kind == Origin::Kind::manifest) return list_files_of_manifest(crew, evidence, shown);
  return FileList::list(crew, evidence, shown);
}

}  // namespace rota::internal
