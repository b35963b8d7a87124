// File systems of fsspec as storages.

#include <algorithm>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/caught.hpp"
#include "files/reads.hpp"
#include "lifetime.hpp"
#include "rota/error.hpp"
#include "rota/object_storage.hpp"
#include "rota/world.hpp"
#include "values.hpp"

namespace rota::python {
namespace {

using Reads = internal::JoinedReads<StoredBytes>;
using ReadNow = std::vector<Reads::Read>;

// Answers come as objects of Python, with what lies between two ranges.
constexpr internal::ReadLimits kLimits{.gap = 64 << 10, .bytes = 16 << 20, .part = 8 << 20};
constexpr std::uint64_t kMostBytes = 64 << 20;  // of one call

StoredFile to_file(py::handle found) {
  const auto [name, bytes, version] = found.cast<std::tuple<std::string, std::uint64_t, std::uint64_t>>();
  return {.name = name, .bytes = bytes, .version = version};
}

// An exception that was returned, and not raised.
std::exception_ptr error_of(py::handle returned) {
  return internal::thrown_by([&] {
    PyErr_SetObject(py::type::handle_of(returned).ptr(), returned.ptr());
    const py::error_already_set raised;
    throw_as_error(raised, ErrorCode::io, ErrorCode::io);
  });
}

// Copies each wanted byte of `read`, whose bytes these are, to its memory.
void spread(const Reads::Read& read, std::span<const std::byte> bytes) {
  for (const StoredBytes& one : read.wanted) {
    const std::uint64_t from = std::max(one.offset, read.begin);
    const std::uint64_t to = std::min(one.offset + one.to.size(), read.end);
    if (from < to) std::memcpy(one.to.data() + (from - one.offset), &bytes[from - read.begin], to - from);
  }
}

void report(const Reads::Read& read, const std::exception_ptr& error) {
  for (StoredBytes& one : read.wanted) {
    if (one.offset < read.end && read.begin < one.offset + one.to.size()) one.error = error;
  }
}

/// A `rota._storages.Files`. Python's lock is held while that is asked, and while nothing else is done.
class PythonStorage final : public Storage {
  // fsspec's thread, and connections, are those of the process that made them.
  template <typename Work>
  auto ask(const Work& work) const {
    if (internal::this_process() != maker_) {
      throw Error(
          ErrorCode::unsupported,
          "use a file system of fsspec in a forked child: its thread and connections are the parent's; start "
          "processes by spawn (multiprocessing_context=\"spawn\"), or open the files in the child");
    }
    return call_python([&] {
      try {
        return work(*files_);
      } catch (const py::error_already_set& raised) {
        throw_as_error(raised, ErrorCode::io, ErrorCode::io);
      }
    });
  }

 public:
  explicit PythonStorage(py::handle files) : files_(files) {}

  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const override {
    const auto found = ask([&](const py::object& files) {
      std::vector<StoredFile> made;
      for (const py::handle file : files.attr("below")(to_name(prefix))) made.push_back(to_file(file));
      return made;
    });
    std::ranges::for_each(found, visit);
  }

  [[nodiscard]] std::optional<StoredFile> find(std::string_view name) const override {
    return ask([&](const py::object& files) {
      const py::object found = files.attr("find")(to_name(name));
      return found.is_none() ? std::nullopt : std::optional(to_file(found));
    });
  }

  void read(std::span<StoredBytes> wanted) const override {
    Reads reads(wanted, kLimits);
    while (!reads.is_over()) {
      ReadNow now;
      std::uint64_t bytes = 0;
      while (bytes < kMostBytes) {
        const auto read = reads.next();
        if (!read) break;
        now.push_back(*read);
        bytes += read->end - read->begin;
      }
      if (!now.empty()) ask([&](const py::object& files) { read_now(files, now); });
    }
  }

  void write(std::string_view name, std::uint64_t bytes,
             const std::function<void(std::uint64_t offset, std::span<std::byte> to)>& fill) const override {
    std::exception_ptr failed;  // of `fill`, as it was thrown
    const auto piece = [&](std::uint64_t offset, std::size_t count) {
      py::bytes made(static_cast<const char*>(nullptr), count);
      const std::span to(reinterpret_cast<std::byte*>(PyBytes_AsString(made.ptr())), count);
      const py::gil_scoped_release released;
      failed = internal::thrown_by([&] { fill(offset, to); });
      if (failed != nullptr) throw Error(ErrorCode::io, "there are no bytes to write");
      return made;
    };
    const auto other = internal::thrown_by([&] {
      ask([&](const py::object& files) {
        files.attr("write")(to_name(name), bytes, py::cpp_function(piece));
      });
    });
    if (failed != nullptr) std::rethrow_exception(failed);
    if (other != nullptr) std::rethrow_exception(other);
  }

  void remove(std::string_view name) const override {
    ask([&](const py::object& files) { files.attr("remove")(to_name(name)); });
  }

 private:
  static void read_now(const py::object& files, const ReadNow& now) {
    py::list ranges;
    for (const Reads::Read& read : now) {
      const StoredFile& file = *read.wanted[0].file;
      ranges.append(py::make_tuple(to_name(file.name), file.version, read.begin, read.end));
    }
    const py::list got = files.attr("read")(ranges);
    std::vector<py::buffer_info> bytes(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (PyExceptionInstance_Check(got[i].ptr()) != 0) {
        report(now[i], error_of(got[i]));
      } else {
        bytes[i] = got[i].cast<py::buffer>().request();
      }
    }
    const py::gil_scoped_release released;
    for (std::size_t i = 0; i < now.size(); ++i) {
      if (bytes[i].ptr != nullptr)
        spread(now[i], {static_cast<const std::byte*>(bytes[i].ptr), now[i].end - now[i].begin});
    }
  }

  Shared files_;
  int maker_ = internal::this_process();
};

}  // namespace

void take(py::handle value, const Argument& /*as*/, Storages& to) {
  const py::dict made = py::module_::import("rota._storages").attr("as_storages")(value);
  for (const auto& [scheme, files] : made) {
    to[scheme.cast<std::string>()] = std::make_shared<const PythonStorage>(files);
  }
}

// A path, or the path and storages.
void take(py::handle value, const Argument& as, StoredPath& to) {
  if (value.is_none()) return;
  const auto [path, storages] = value.cast<std::pair<std::string, py::object>>();
  to = stored_path(path, take<Storages>(storages, as));
}

}  // namespace rota::python
