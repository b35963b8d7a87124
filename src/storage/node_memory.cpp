#include "storage/node_memory.hpp"

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "storage/memory_file.hpp"

namespace rota::internal {
namespace {

std::shared_ptr<std::byte> make_room(MemoryFile& file, std::size_t bytes) {
  file.resize(bytes);
  return file.map_to_write();
}

// The leader's, or nothing where this rank cannot open it.
std::shared_ptr<std::byte> open_room(const mpi::Nodes& nodes, const MemoryFile::Address& address) {
  if (!nodes.can_share_memory()) return nullptr;
  try {
    return MemoryFile(address, MemoryFile::Access::write).map_to_write();
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

NodeMemory make_node_memory(const mpi::Nodes& nodes, std::size_t bytes) {
  NodeMemory room{.ranks = nodes.node().size(), .is_first = nodes.leads()};
  std::optional<MemoryFile> file;
  MemoryFile::Address address;
  mpi::together(nodes.all(), "share memory", [&] {
    if (!nodes.leads()) return;
    room.memory = make_room(file.emplace(), bytes);
    address = file->address();
  });
  mpi::broadcast(nodes.node(), std::as_writable_bytes(std::span(&address, 1)));
  if (!nodes.leads()) room.memory = open_room(nodes, address);
  std::int64_t failures = room.memory == nullptr ? 1 : 0;
  sum(nodes.node(), std::span(&failures, 1));
  mpi::together(nodes.all(), "share memory", [&] {
    if (failures == 0) return;
    MemoryFile own;
    room = {.memory = make_room(own, bytes)};
  });
  return room;
}

}  // namespace rota::internal
