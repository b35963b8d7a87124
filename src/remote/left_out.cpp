// Storages of a build without S3 and web servers (ROTA_REMOTE=OFF), in place of all else in this folder but
// object_storage.cpp.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rota/error.hpp"
#include "rota/object_storage.hpp"

namespace rota {
namespace {

class LeftOut final : public Storage {
 public:
  void list(std::string_view name, const std::function<void(const StoredFile&)>& /*visit*/) const override {
    refuse("list", name);
  }
  [[nodiscard]] std::optional<StoredFile> find(std::string_view name) const override { refuse("find", name); }
  void read(std::span<StoredBytes> wanted) const override { refuse("read", wanted.front().file->name); }

 private:
  [[noreturn]] static void refuse(std::string_view task, std::string_view name) {
    throw Error(ErrorCode::unsupported,
                std::string(task).append(" ").append(name).append(
                    ": this rota was built without S3 and web servers; build it with -DROTA_REMOTE=ON"));
  }
};

}  // namespace

std::shared_ptr<const Storage> s3_storage(S3Options options) {
  options.validate();
  return std::make_shared<const LeftOut>();
}

std::shared_ptr<const Storage> http_storage(std::string /*scheme*/, HttpOptions options) {
  options.validate();
  return std::make_shared<const LeftOut>();
}

}  // namespace rota
