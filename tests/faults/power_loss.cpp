#include "power_loss.hpp"

namespace rota::test {
namespace {

using Random = std::mt19937_64;

// A write, or a new size.
struct Change {
  std::int64_t offset = 0;  // or the size
  std::string_view data = {};
  bool sets_size = false;
  std::int64_t end = 0;
  bool is_durable = false;
  std::int64_t reaches() const { return offset + std::ssize(data); }
};

struct File {
  bool is_directory = false;
  std::vector<Change> changes;
};

struct NameChange {
  Call call = Call::open;  // that created it, or made a directory; rename, unlink
  std::string path;
  std::string other;
  int file = -1;
  std::int64_t end = 0;
  bool is_durable = false;
};

using Names = std::map<std::string, int>;  // path -> file

void change_names(const NameChange& change, Names& names) {
  if (change.call == Call::rename || change.call == Call::unlink) {
    const auto found = names.find(change.path);
    if (found != names.end() && found->second == change.file) names.erase(found);
    if (change.call == Call::rename) names[change.other] = change.file;
  } else {
    names[change.path] = change.file;
  }
}

// How much of what is not durable is kept: nothing, everything, or something between.
double draw_share(Random& random) {
  constexpr std::array kShares{0.0, 0.1, 0.5, 0.9, 1.0};
  return kShares.at(random() % kShares.size());
}

// How many of `count` changes to one thing are kept, the first ones of them.
std::size_t draw_kept(std::size_t count, double share, Random& random) {
  return static_cast<std::size_t>(
      std::binomial_distribution<std::int64_t>(static_cast<std::int64_t>(count), share)(random));
}

// ---- what was done before the cut ----

class History {
 public:
  History(const Trace& trace, const PowerLoss& loss, Random& random) : cut_(loss.cut) {
    std::vector<std::pair<double, const TraceEvent*>> order;  // when each took effect
    for (const TraceEvent& event : trace) {
      const auto& [begin, end] = std::pair(event.begin, std::min(event.end, cut_));
      if (begin >= cut_ || (event.end >= cut_ && random() % 2 == 0)) continue;
      const auto first = static_cast<double>(begin);
      order.emplace_back(std::uniform_real_distribution(first, static_cast<double>(end))(random), &event);
    }
    std::ranges::sort(order);
    for (const auto& [time, event] : order) replay(*event);
  }

  const std::vector<File>& files() const { return files_; }
  const std::vector<NameChange>& names() const { return names_; }

 private:
  void replay(const TraceEvent& event) {
    switch (event.call) {
      case Call::open:
        return open(event);
      case Call::write:
        return file(event).changes.push_back(
            {.offset = event.offset, .data = event.data, .sets_size = false, .end = event.end});
      case Call::resize:
      case Call::allocate:
        return resize(event);
      case Call::sync:
        if (event.end < cut_) sync(event);
        return;
      case Call::rename:
      case Call::unlink:
        return change_name({.call = event.call,
                            .path = event.path,
                            .other = event.other,
                            .file = live_.at(event.path),
                            .end = event.end});
      case Call::make_directory:
        return make(event, true);
      case Call::mark:
        return;
    }
  }

  void open(const TraceEvent& event) {
    const bool creates = (event.flags & O_CREAT) != 0 && !live_.contains(event.path);
    if (creates) make(event, false);
    const auto found = live_.find(event.path);  // the root itself is in no directory that counts
    const std::pair descriptor(event.process, event.fd);
    opened_[descriptor] = found == live_.end() ? -1 : found->second;
    paths_[descriptor] = event.path;
    if ((event.flags & O_TRUNC) != 0 && !creates) {
      file(event).changes.push_back({.sets_size = true, .end = event.end});
    }
  }

  void make(const TraceEvent& event, bool is_directory) {
    files_.push_back({.is_directory = is_directory, .changes = {}});
    change_name({.call = Call::open,
                 .path = event.path,
                 .other = {},
                 .file = static_cast<int>(files_.size()) - 1,
                 .end = event.end});
  }

  void change_name(NameChange change) {
    change_names(change, live_);
    names_.push_back(std::move(change));
  }

  // Allotting never makes a file shorter.
  void resize(const TraceEvent& event) {
    std::int64_t size = 0;
    for (const Change& change : file(event).changes) {
      size = change.sets_size ? change.offset : std::max(size, change.reaches());
    }
    const std::int64_t wanted = event.offset;
    if (event.call == Call::allocate && wanted <= size) return;
    file(event).changes.push_back({.offset = wanted, .data = {}, .sets_size = true, .end = event.end});
  }

  void sync(const TraceEvent& event) {
    if (!event.is_directory) return cover(file(event).changes, event.begin);
    const fs::path directory = paths_.at({event.process, event.fd});
    for (NameChange& change : names_) {
      const bool is_there = fs::path(change.path).parent_path() == directory;
      if (is_there && change.end < event.begin) change.is_durable = true;
    }
  }

  static void cover(std::vector<Change>& changes, std::int64_t before) {
    for (Change& change : changes) change.is_durable |= change.end < before;
  }

  File& file(const TraceEvent& event) {
    return files_.at(static_cast<std::size_t>(opened_.at({event.process, event.fd})));
  }

  std::int64_t cut_;
  std::vector<File> files_;
  std::vector<NameChange> names_;
  Names live_;
  std::map<std::pair<int, int>, int> opened_;  // process, descriptor -> file
  std::map<std::pair<int, int>, std::string> paths_;
};

// ---- what is left of it ----

// Names are kept each by itself, or, as journals do it, up to one of them.
Names draw_names(const std::vector<NameChange>& changes, Random& random) {
  const bool in_order = random() % 2 == 0;
  const double share = draw_share(random);
  auto kept = static_cast<std::int64_t>(draw_kept(
      static_cast<std::size_t>(std::ranges::count(changes, false, &NameChange::is_durable)), share, random));
  Names names;
  for (const NameChange& change : changes) {
    const bool is_kept =
        change.is_durable || (in_order ? kept-- > 0 : std::bernoulli_distribution(share)(random));
    if (is_kept) change_names(change, names);
  }
  return names;
}

// Of `changes` to one thing, in order, those that are there.
std::vector<const Change*> draw_changes(const std::vector<const Change*>& changes, double share,
                                        Random& random) {
  const auto durable =
      std::find_if(changes.rbegin(), changes.rend(), [](const Change* c) { return c->is_durable; });
  const auto certain = static_cast<std::size_t>(changes.rend() - durable);
  const std::size_t kept = certain + draw_kept(changes.size() - certain, share, random);
  return {changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(kept)};
}

std::size_t draw_size(const File& file, double share, Random& random) {
  std::vector<const Change*> changes;
  std::int64_t size = 0;
  for (const Change& change : file.changes) {  // those that matter to the size
    if (!change.sets_size && change.reaches() <= size) continue;
    size = change.reaches();
    changes.push_back(&change);
  }
  const auto kept = draw_changes(changes, share, random);
  if (kept.empty()) return 0;
  return static_cast<std::size_t>(kept.back()->reaches());
}

// The part of `change` that lies in bytes [first, first + page.size()), onto that page.
void apply_to_page(const Change& change, std::int64_t first, std::span<char> page) {
  const std::int64_t last = first + std::ssize(page);
  const std::int64_t from = std::max(first, change.offset);
  const std::int64_t to = change.sets_size ? last : std::min(last, change.reaches());
  if (from >= to) return;
  const std::span part =
      page.subspan(static_cast<std::size_t>(from - first), static_cast<std::size_t>(to - from));
  if (change.sets_size) {
    std::ranges::fill(part, '\0');
  } else {
    std::memcpy(part.data(), change.data.data() + (from - change.offset), part.size());
  }
}

bool touches(const Change& change, std::int64_t first, std::int64_t last) {
  return change.offset < last && (change.sets_size || change.reaches() > first);
}

std::string draw_content(const File& file, Random& random) {
  const std::size_t page_bytes = random() % 4 == 0 ? 512 : 4096;
  const double share = draw_share(random);
  std::string content(draw_size(file, draw_share(random), random), '\0');
  for (std::size_t at = 0; at < content.size(); at += page_bytes) {
    const auto first = static_cast<std::int64_t>(at);
    const std::span page = std::span(content).subspan(at, std::min(page_bytes, content.size() - at));
    std::vector<const Change*> changes;
    for (const Change& change : file.changes) {
      if (touches(change, first, first + std::ssize(page))) changes.push_back(&change);
    }
    for (const Change* change : draw_changes(changes, share, random)) apply_to_page(*change, first, page);
  }
  return content;
}

std::string next_bytes(std::string_view& bytes, std::size_t count) {
  const std::string_view part = bytes.substr(0, count);
  if (part.size() != count) throw std::runtime_error("a trace ends in the middle of a record");
  bytes.remove_prefix(count);
  return std::string(part);
}

void read_process(const fs::path& path, int process, Trace& trace) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  std::map<int, bool> is_directory;  // by descriptor
  for (std::string_view bytes = file; !bytes.empty();) {
    TraceEvent event;
    event.process = process;
    std::memcpy(static_cast<RecordHeader*>(&event), next_bytes(bytes, sizeof(RecordHeader)).data(),
                sizeof(RecordHeader));
    event.path = next_bytes(bytes, event.path_bytes);
    event.other = next_bytes(bytes, event.other_bytes);
    event.data = next_bytes(bytes, event.data_bytes);
    if (event.call == Call::open) {
      is_directory[event.fd] = (event.flags & O_DIRECTORY) != 0;
    }
    event.is_directory = is_directory[event.fd];
    trace.push_back(std::move(event));
  }
}

}  // namespace

Trace read_trace(const fs::path& directory) {
  Trace trace;
  int process = 0;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() == ".trace") read_process(entry.path(), process++, trace);
  }
  std::ranges::sort(trace, {}, &TraceEvent::begin);
  return trace;
}

std::vector<std::size_t> syncs_in(const Trace& trace, bool of_directories) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (trace[i].call == Call::sync && trace[i].is_directory == of_directories) places.push_back(i);
  }
  return places;
}

Trace without(const Trace& trace, const std::vector<std::size_t>& places) {
  Trace rest;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    if (std::ranges::find(places, i) == places.end()) rest.push_back(trace[i]);
  }
  return rest;
}

std::int64_t end_of(const Trace& trace) {
  std::int64_t end = 0;
  for (const TraceEvent& event : trace) end = std::max(end, event.end + 1);
  return end;
}

std::int64_t highest_mark(const Trace& trace, std::int64_t cut) {
  std::int64_t highest = -1;
  for (const TraceEvent& event : trace) {
    if (event.call != Call::mark || event.begin >= cut) continue;
    highest = std::max(highest, event.offset);
  }
  return highest;
}

void leave(const Trace& trace, const PowerLoss& loss, const fs::path& root, const fs::path& target) {
  Random random(loss.seed);
  const History history(trace, loss, random);
  for (const auto& [path, number] : draw_names(history.names(), random)) {
    const File& file = history.files().at(static_cast<std::size_t>(number));
    const fs::path place = target / fs::path(path).lexically_relative(root);
    if (!fs::exists(place.parent_path())) continue;  // a directory whose own name is lost
    if (file.is_directory) {
      fs::create_directory(place);
    } else {
      std::ofstream(place, std::ios::binary) << draw_content(file, random);
    }
  }
}

}  // namespace rota::test
