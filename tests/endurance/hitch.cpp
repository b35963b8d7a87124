#include "hitch.hpp"

#include <mpi.h>

#include <cerrno>
#include <utility>

namespace rota::test {

void Hitch::arm(const std::string& point, Act act) {
  const std::scoped_lock lock(mutex_);
  const std::size_t colon = point.find(':');
  kind_ = point.substr(0, colon);
  number_ = colon == std::string::npos ? 0 : std::stoi(point.substr(colon + 1));
  act_ = std::move(act);
}

int Hitch::reach(std::string_view kind) {
  Act act;
  {
    const std::scoped_lock lock(mutex_);
    if (!act_ || kind != kind_ || number_-- > 0) return 0;
    act = std::exchange(act_, nullptr);
  }
  return act();
}

Hitch& hitch() {
  static Hitch only;
  return only;
}

namespace {
bool fails(std::string_view kind) {
  const int error = hitch().reach(kind);
  if (error != 0) errno = error;
  return error != 0;
}
}  // namespace

int HitchFileSystem::open(const char* path, int flags, mode_t mode) const {
  return fails((flags & O_CREAT) != 0 ? "create" : "open") ? -1 : FileSystem::open(path, flags, mode);
}
int HitchFileSystem::close(int fd) const {
  const bool has_failed = fails("close");
  const int result = FileSystem::close(fd);
  if (has_failed) errno = EIO;
  return has_failed ? -1 : result;
}
ssize_t HitchFileSystem::pread(int fd, void* out, std::size_t bytes, off_t at) const {
  return fails("pread") ? -1 : FileSystem::pread(fd, out, bytes, at);
}
ssize_t HitchFileSystem::pwrite(int fd, const void* data, std::size_t bytes, off_t at) const {
  return fails(at == 0 ? "page" : "pwrite") ? -1 : FileSystem::pwrite(fd, data, bytes, at);
}
int HitchFileSystem::fsync(int fd) const { return fails("fsync") ? -1 : FileSystem::fsync(fd); }
int HitchFileSystem::fallocate(int fd, off_t bytes) const {
  const int error = hitch().reach("fallocate");
  return error != 0 ? error : FileSystem::fallocate(fd, bytes);
}
int HitchFileSystem::rename(const char* from, const char* to) const {
  return fails("rename") ? -1 : FileSystem::rename(from, to);
}
int HitchFileSystem::unlink(const char* path) const {
  return fails("unlink") ? -1 : FileSystem::unlink(path);
}
int HitchFileSystem::list(const std::filesystem::path& path, std::vector<std::string>& names) const {
  return fails("list") ? -1 : FileSystem::list(path, names);
}

}  // namespace rota::test

// MPI's profiling interface: these stand before those of the MPI library. A failing one does its work, too,
// so that other ranks do not wait for it in vain.

extern "C" {

int MPI_File_open(MPI_Comm comm, const char* name, int mode, MPI_Info info, MPI_File* file) {
  static_cast<void>(rota::test::hitch().reach("mpi_open"));
  return PMPI_File_open(comm, name, mode, info, file);
}

int MPI_File_write_at_all(MPI_File file, MPI_Offset at, const void* data, int count, MPI_Datatype type,
                          MPI_Status* status) {
  const int error = rota::test::hitch().reach("mpi_write");
  const int result = PMPI_File_write_at_all(file, at, data, count, type, status);
  return error != 0 ? MPI_ERR_IO : result;
}

int MPI_File_close(MPI_File* file) {
  const int error = rota::test::hitch().reach("mpi_close");
  const int result = PMPI_File_close(file);
  return error != 0 ? MPI_ERR_IO : result;
}

}  // extern "C"
