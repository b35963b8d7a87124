#include "catalog/spread_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "mpi/messages.hpp"
#include "rota/error.hpp"

namespace rota {
namespace {

constexpr std::size_t kBlock = NameTable::kBlockNames;

std::size_t ranks_of(const World& world) { return static_cast<std::size_t>(world.size); }

const SpreadListing::Entry& find(const SpreadListing::Here& here, std::size_t file) {
  for (const auto& brought : here) {
    if (const auto found = brought->find(file); found != brought->end()) return found->second;
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("read file {}: its name is kept by another rank, and was not brought here; read a "
                          "distributed dataset with a Loader, or call Source::bring",
                          file));
}

class SpreadReader final : public Listing::Reader {
 public:
  explicit SpreadReader(SpreadListing::Here here) : here_(std::move(here)) {}
  const std::string& operator[](std::size_t i) override { return find(here_, i).name; }

 private:
  SpreadListing::Here here_;
};

template <typename T>
void put(std::vector<std::byte>& bytes, const T& value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof(value));
}

// What `pack` made of one request comes back in the same order, so there is no more to check than that it is
// all there.
template <typename T>
T take(std::span<const std::byte>& bytes) {
  T value{};
  if (bytes.size() < sizeof(value)) throw Error(ErrorCode::corrupt, "bring names: an answer was cut short");
  std::memcpy(&value, bytes.data(), sizeof(value));
  bytes = bytes.subspan(sizeof(value));
  return value;
}

}  // namespace

int SpreadPlan::owner(std::size_t file) const noexcept {
  return static_cast<int>(file / kBlock % ranks_of(world));
}

std::size_t SpreadPlan::place(std::size_t file) const noexcept {
  return file / kBlock / ranks_of(world) * kBlock + file % kBlock;
}

std::size_t SpreadPlan::file(std::size_t place) const noexcept {
  return (place / kBlock * ranks_of(world) + static_cast<std::size_t>(world.rank)) * kBlock + place % kBlock;
}

namespace {

/// A rank's blocks, as they come in.
class OwnBlocks {
 public:
  void add(std::span<const std::byte> block) {
    bytes_->insert(bytes_->end(), block.begin(), block.end());
    ends_.push_back(bytes_->size());
  }
  NameTable finish(const SpreadPlan& plan) {
    // All blocks are full but the last of all.
    std::size_t names = ends_.size() * kBlock;
    if (names > 0 && plan.file(names - 1) >= plan.files) names -= plan.file(names - 1) - plan.files + 1;
    const std::vector<std::byte> after = end_of_table(ends_, names);
    bytes_->insert(bytes_->end(), after.begin(), after.end());
    bytes_->shrink_to_fit();
    return {std::span<const std::byte>(*bytes_), bytes_};
  }

 private:
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
  std::vector<std::uint64_t> ends_;
};

}  // namespace

NameTable hand_out_blocks(const mpi::Communicator& comm, std::string_view phase,
                          const std::function<void(NameTableBuilder&)>& put, std::size_t& files) {
  OwnBlocks own;
  mpi::deal_out(
      comm, phase,
      [&](const mpi::Deal& deal) {
        int next = 0;
        NameTableBuilder names([&](std::span<const std::byte> block) {
          deal(next, block);
          next = (next + 1) % comm.size();
        });
        put(names);
        (void)names.end();
        files = names.size();
      },
      [&](std::span<const std::byte> block) { own.add(block); });
  mpi::broadcast(comm, std::as_writable_bytes(std::span(&files, 1)));
  return own.finish({.world = comm.world(), .files = files});
}

SpreadListing::SpreadListing(const mpi::Communicator& comm, const SpreadPlan& plan, NameTable own,
                             std::vector<FileStat> stats)
    : comm_(comm), plan_(plan), own_(std::move(own)), stats_(std::move(stats)) {}

SpreadListing::Here SpreadListing::here() const {
  const std::scoped_lock lock(mutex_);
  Here here;
  for (const auto& brought : brought_) {
    if (auto wanted = brought.lock()) here.push_back(std::move(wanted));
  }
  return here;
}

std::unique_ptr<Listing::Reader> SpreadListing::read_names() const {
  return std::make_unique<SpreadReader>(here());
}

FileStat SpreadListing::stat(std::size_t i) const { return find(here(), i).stat; }

std::size_t SpreadListing::memory_bytes() const {
  std::size_t bytes = own_.bytes().size() + stats_.size() * sizeof(FileStat);
  for (const auto& brought : here()) {
    for (const auto& [file, entry] : *brought) bytes += sizeof(file) + sizeof(entry) + entry.name.capacity();
  }
  return bytes;
}

// Numbers of files go to their owners, and their names come back: in order, so that owners unpack each block
// once.
std::shared_ptr<const void> SpreadListing::bring(std::span<const std::size_t> files) const {
  std::vector<std::size_t> wanted;
  mpi::Messages requests(ranks_of(plan_.world));
  mpi::together(comm_, "bring names", [&] {
    wanted.assign(files.begin(), files.end());
    std::sort(wanted.begin(), wanted.end());
    wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
    for (const std::size_t file : wanted) put(requests[static_cast<std::size_t>(plan_.owner(file))], file);
  });
  const mpi::Messages asked = mpi::exchange(comm_, requests);
  mpi::Messages answers(asked.size());
  mpi::together(comm_, "bring names", [&] {
    for (std::size_t rank = 0; rank < asked.size(); ++rank) answers[rank] = pack(asked[rank]);
  });
  const mpi::Messages told = mpi::exchange(comm_, answers);
  auto brought = std::make_shared<Brought>();
  mpi::together(comm_, "bring names", [&] { unpack(wanted, told, *brought); });
  const std::scoped_lock lock(mutex_);
  std::erase_if(brought_, [](const auto& other) { return other.expired(); });
  brought_.push_back(brought);
  return brought;
}

void SpreadListing::unpack(std::span<const std::size_t> files, const mpi::Messages& told, Brought& to) const {
  std::vector<std::span<const std::byte>> rest(told.begin(), told.end());
  for (const std::size_t file : files) {
    auto& answer = rest[static_cast<std::size_t>(plan_.owner(file))];
    Entry entry;
    entry.stat = take<FileStat>(answer);
    const auto bytes = take<std::uint16_t>(answer);
    entry.name.assign(reinterpret_cast<const char*>(answer.data()), bytes);
    answer = answer.subspan(bytes);
    to.emplace(file, std::move(entry));
  }
}

std::vector<std::byte> SpreadListing::pack(std::span<const std::byte> wanted) const {
  std::vector<std::byte> answer;
  NameReader names(own_);
  while (!wanted.empty()) {
    const auto file = take<std::size_t>(wanted);
    const std::size_t place = plan_.place(file);
    if (place >= own_.size()) {
      throw Error(ErrorCode::out_of_range, fmt::format("bring file {}: there are {}", file, plan_.files));
    }
    const std::string& name = names[place];
    put(answer, stats_.empty() ? FileStat{} : stats_[place]);
    put(answer, static_cast<std::uint16_t>(name.size()));
    const auto* text = reinterpret_cast<const std::byte*>(name.data());
    answer.insert(answer.end(), text, text + name.size());
  }
  return answer;
}

}  // namespace rota
