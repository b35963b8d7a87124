#include "files/temporary.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>

#include "files/descriptor.hpp"
#include "rota/error.hpp"

namespace rota::internal {

bool is_dead(const FileSystem& system, const std::string& path) {
  try {
    return File(system, path, O_RDWR).try_lock() == Lock::taken;
  } catch (const Error&) {
    return false;  // gone already, or not ours to open
  }
}

Temporary::Temporary(const FileSystem& system, const std::filesystem::path& path)
    : system_(&system), file_(system, path.string(), O_RDWR | O_CREAT | O_EXCL), name_(path.string()) {
  static_cast<void>(file_.try_lock());
}

Temporary::~Temporary() {
  if (!name_.empty()) system_->unlink(name_.c_str());
}

void Temporary::rename_to(const std::filesystem::path& name) {
  file_.sync();
  file_.close();
  if (system_->rename(name_.c_str(), name.c_str()) != 0) {
    throw write_error("rename", fmt::format("{} to {}", name_, name.native()), errno);
  }
}

void Temporary::publish(const std::filesystem::path& name, const File& directory) {
  rename_to(name);
  name_ = name.string();
  directory.sync();
  name_.clear();
}

void Temporary::replace(const std::filesystem::path& name, const File& directory) {
  rename_to(name);
  name_.clear();
  directory.sync();
}

}  // namespace rota::internal
