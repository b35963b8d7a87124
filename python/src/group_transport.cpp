#include "group_transport.hpp"

#include <pybind11/stl.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace rota::python {
namespace {

using ranks::Transport;

py::memoryview view(std::span<std::byte> bytes) {
  static std::byte nothing{};  // what has no bytes may have no address
  return py::memoryview::from_memory(bytes.empty() ? &nothing : bytes.data(),
                                     static_cast<py::ssize_t>(bytes.size()));
}
template <typename T>
py::memoryview view(std::span<T> values) {
  return view(std::as_writable_bytes(values));
}

// Nothing is written to what goes out, but there are no tensors over memory that is const.
template <typename Byte>
py::list views(const ranks::Parts<Byte>& parts) {
  py::list all;
  for (const auto part : parts) {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): see above
    all.append(view(std::span(const_cast<std::byte*>(part.data()), part.size())));
  }
  return all;
}

class GroupCall final : public ranks::Call {
 public:
  // With the GIL. One that splits the group leaves in `made` what it has made, if anything.
  explicit GroupCall(py::handle call, std::unique_ptr<Transport>* made = nullptr)
      : call_(call), advance_(call.attr("advance")), made_(made) {}

  bool advance(bool may_rest) override {
    return call_python([&] {
      const py::object is_done = (*advance_)(may_rest);
      if (is_done.is_none()) throw ranks::RankLost();
      if (!is_done.cast<bool>()) return false;
      if (made_ == nullptr) return true;
      const py::object group = (*call_).attr("made");
      if (!group.is_none()) *made_ = std::make_unique<GroupTransport>(group);
      return true;
    });
  }

 private:
  Shared call_, advance_;
  std::unique_ptr<Transport>* made_;
};

// With the GIL.
template <typename... Arguments>
Transport::Begun begin(const Shared& group, const char* method, const Arguments&... arguments) {
  return std::make_unique<GroupCall>((*group).attr(method)(arguments...));
}

}  // namespace

GroupTransport::GroupTransport(const py::object& group)
    : Transport(group.attr("rank").cast<int>(), group.attr("size").cast<int>(), &python_has_ended),
      group_(group) {}

GroupTransport::~GroupTransport() {
  if (maker_ != internal::this_process() || has_ended()) return;
  try {
    call_python([&] { (*group_).attr("close")(); });
  } catch (...) {  // Python ends meanwhile, or is interrupted
  }
}

Transport::Begun GroupTransport::reduce(std::span<std::int64_t> values, ranks::Reduction how) {
  return call_python([&] { return begin(group_, "reduce", view(values), "int64", static_cast<int>(how)); });
}

Transport::Begun GroupTransport::sum(std::span<double> values) {
  return call_python([&] {
    return begin(group_, "reduce", view(values), "float64", static_cast<int>(ranks::Reduction::sum));
  });
}

Transport::Begun GroupTransport::broadcast(std::span<std::byte> bytes, int from) {
  return call_python([&] { return begin(group_, "broadcast", view(bytes), from); });
}

Transport::Begun GroupTransport::exchange(ranks::Parts<const std::byte> outgoing,
                                          ranks::Parts<std::byte> incoming) {
  return call_python([&] { return begin(group_, "exchange", views(outgoing), views(incoming)); });
}

Transport::Begun GroupTransport::duplicate(std::unique_ptr<Transport>& made) {
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return split(all, made);
}

Transport::Begun GroupTransport::split(std::span<const int> members, std::unique_ptr<Transport>& made) {
  return call_python([&]() -> Begun {
    const std::vector all(members.begin(), members.end());
    return std::make_unique<GroupCall>((*group_).attr("split")(all), &made);
  });
}

void GroupTransport::post(int to, std::string_view text) {
  call_python([&] { (*group_).attr("post")(to, py::bytes(text.data(), text.size())); });
}

std::optional<ranks::Mail> GroupTransport::take() {
  return call_python([&]() -> std::optional<ranks::Mail> {
    const py::object mail = (*group_).attr("take")();
    if (mail.is_none()) return std::nullopt;
    auto [from, text] = mail.cast<std::pair<int, std::string>>();
    return ranks::Mail{.from = from, .text = std::move(text)};
  });
}

std::string GroupTransport::first_said(std::string_view mine) {
  return call_python([&] { return (*group_).attr("first_said")(to_text(mine)).cast<std::string>(); });
}

std::vector<int> GroupTransport::lost() {
  return call_python([&] { return (*group_).attr("lost")().cast<std::vector<int>>(); });
}

}  // namespace rota::python
