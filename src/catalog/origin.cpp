#include "catalog/origin.hpp"

#include "catalog/manifest.hpp"

namespace rota::internal {
namespace {

FileList list_files_of_manifest(const std::shared_ptr<const OpenContext>& context,
                                ChangeDetection change_detection, const std::string& path) {
  std::vector<std::int64_t> samples;  // on rank 0
  FileList files(context, change_detection,
                 [&](const NameVisitor& visit) { return list_manifest(path, visit, samples); });
  files.expect(samples);
  return files;
}

}  // namespace

FileList list_origin(const std::shared_ptr<const OpenContext>& context, const Origin& origin,
                     ChangeDetection change_detection, const std::string& shown) {
  if (origin.kind == Origin::Kind::manifest) return list_files_of_manifest(context, change_detection, shown);
  return FileList::list(context, change_detection, shown);
}

}  // namespace rota::internal
