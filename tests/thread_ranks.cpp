#include "thread_ranks.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/access.hpp"
#include "ranks/collectives.hpp"
#include "ranks/exchange.hpp"
#include "ranks/transport.hpp"

namespace rota::test {
namespace {

using namespace ranks;  // NOLINT(google-build-using-namespace)

using Bytes = std::vector<std::byte>;
using Begun = Transport::Begun;

/// What the ranks of a group have sent one another.
struct Group {
  explicit Group(int ranks) : boxes(static_cast<std::size_t>(ranks)) {}

  /// From one rank to another, by number.
  struct Way {
    std::map<std::int64_t, Bytes> messages;
    std::int64_t sent = 0;
    std::int64_t asked = 0;
  };
  std::mutex mutex;
  std::map<std::pair<int, int>, Way> ways;
  std::vector<std::deque<Mail>> boxes;
  std::set<int> gone;
  std::map<std::pair<int, int>, std::shared_ptr<Group>> others;  // by their number, and their first rank
};

/// Waits for a part of each of the others, and then calls `end`.
class ThreadCall final : public Call {
 public:
  using End = std::function<void()>;
  struct Wanted {
    int from;
    std::int64_t number;
    std::span<std::byte> to;
  };
  ThreadCall(std::shared_ptr<Group> group, int rank, std::vector<Wanted> wanted, End end)
      : group_(std::move(group)), rank_(rank), wanted_(std::move(wanted)), end_(std::move(end)) {}

  bool advance(bool /*may_rest*/) override {
    {
      const std::scoped_lock lock(group_->mutex);
      std::erase_if(wanted_, [&](const Wanted& wanted) {
        auto& messages = group_->ways[{wanted.from, rank_}].messages;
        const auto found = messages.find(wanted.number);
        if (found == messages.end() && group_->gone.contains(wanted.from)) throw RankLost();
        if (found == messages.end()) return false;
        std::ranges::copy(found->second, wanted.to.begin());
        messages.erase(found);
        return true;
      });
    }
    if (!wanted_.empty()) return false;
    if (end_) std::exchange(end_, nullptr)();
    return true;
  }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
  std::vector<Wanted> wanted_;
  End end_;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Group> group, int rank)
      : Transport(rank, static_cast<int>(group->boxes.size())), group_(std::move(group)) {}

  Begun reduce(std::span<std::int64_t> values, Reduction how) override {
    return fold(values, [how](std::int64_t a, std::int64_t b) {
      if (how == Reduction::minimum) return std::min(a, b);
      if (how == Reduction::maximum) return std::max(a, b);
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    });
  }
  Begun sum(std::span<double> values) override {
    return fold(values, [](double a, double b) { return a + b; });
  }
  Begun broadcast(std::span<std::byte> bytes, int from) override {
    Parts<const std::byte> outgoing(ranks());
    Parts<std::byte> incoming(ranks());
    if (rank() == from) {
      std::ranges::fill(outgoing, bytes);
    } else {
      incoming[static_cast<std::size_t>(from)] = bytes;
    }
    return exchange(std::move(outgoing), std::move(incoming));
  }
  Begun exchange(Parts<const std::byte> outgoing, Parts<std::byte> incoming) override {
    return exchange(outgoing, incoming, nullptr);
  }
  Begun duplicate(std::unique_ptr<Transport>& made) override {
    const auto group = other(++children_, size(), 0);
    return fold(
        std::span<std::int64_t>(&nothing_, 1), [](std::int64_t a, std::int64_t) { return a; },
        [&made, group, rank = rank()] { made = std::make_unique<ThreadTransport>(group, rank); });
  }
  Begun split(std::span<const int> members, std::unique_ptr<Transport>& made) override {
    const auto group = other(++children_, static_cast<int>(members.size()), members.front());
    const auto at = std::ranges::find(members, rank()) - members.begin();
    if (members.size() > 1) made = std::make_unique<ThreadTransport>(group, static_cast<int>(at));
    return exchange(Parts<const std::byte>(ranks()), Parts<std::byte>(ranks()));
  }
  void post(int to, std::string_view text) override {
    const std::scoped_lock lock(group_->mutex);
    group_->boxes[static_cast<std::size_t>(to)].push_back({.from = rank(), .text = std::string(text)});
  }
  std::optional<Mail> take() override {
    const std::scoped_lock lock(group_->mutex);
    auto& box = group_->boxes[static_cast<std::size_t>(rank())];
    if (box.empty()) return std::nullopt;
    Mail mail = std::move(box.front());
    box.pop_front();
    return mail;
  }
  std::vector<int> lost() override {
    const std::scoped_lock lock(group_->mutex);
    return {group_->gone.begin(), group_->gone.end()};
  }
  void leave() {
    const std::scoped_lock lock(group_->mutex);
    group_->gone.insert(rank());
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(size()); }

  Begun exchange(const Parts<const std::byte>& outgoing, const Parts<std::byte>& incoming,
                 ThreadCall::End end) {
    const std::scoped_lock lock(group_->mutex);
    std::vector<ThreadCall::Wanted> wanted;
    for (int r = 0; r < size(); ++r) {
      const auto& out = outgoing[static_cast<std::size_t>(r)];
      const auto& in = incoming[static_cast<std::size_t>(r)];
      if (r == rank()) continue;
      Group::Way& to = group_->ways[{rank(), r}];
      if (!out.empty() && group_->gone.contains(r)) wanted.push_back({.from = r, .number = -1, .to = {}});
      if (!out.empty()) to.messages.emplace(to.sent++, Bytes(out.begin(), out.end()));
      if (!in.empty()) wanted.push_back({.from = r, .number = group_->ways[{r, rank()}].asked++, .to = in});
    }
    return std::make_unique<ThreadCall>(group_, rank(), std::move(wanted), std::move(end));
  }

  // Of what all have, in the order of ranks.
  template <typename T, typename Join>
  Begun fold(std::span<T> values, Join join, ThreadCall::End then = nullptr) {
    const auto all =
        std::make_shared<std::vector<std::vector<T>>>(ranks(), std::vector<T>(values.begin(), values.end()));
    Parts<std::byte> incoming;
    for (auto& of_rank : *all) incoming.push_back(std::as_writable_bytes(std::span(of_rank)));
    const Parts<const std::byte> outgoing(ranks(), std::as_bytes(values));
    return exchange(outgoing, incoming, [=] {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = all->front()[i];
        for (std::size_t r = 1; r < all->size(); ++r) values[i] = join(values[i], (*all)[r][i]);
      }
      if (then) then();
    });
  }

  std::shared_ptr<Group> other(int number, int ranks, int first) {
    const std::scoped_lock lock(group_->mutex);
    auto& group = group_->others[{number, first}];
    if (!group) group = std::make_shared<Group>(ranks);
    return group;
  }

  std::shared_ptr<Group> group_;
  int children_ = 0;
  std::int64_t nothing_ = 0;
};

}  // namespace

void leave(const Communicator& comm) {
  dynamic_cast<ThreadTransport&>(ranks::exchange_of(comm).transport()).leave();
}

void on_thread_ranks(int ranks, const std::function<void(const Communicator&)>& work) {
  const auto group = std::make_shared<Group>(ranks);
  std::vector<std::exception_ptr> failed(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const Communicator comm =
              make_communicator(std::make_unique<ThreadTransport>(group, rank), Communicator::kDeadline);
          work(comm);
        } catch (...) {
          failed[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& one : failed) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace rota::test
