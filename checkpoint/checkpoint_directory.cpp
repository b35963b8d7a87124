#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>

#include "core/caught.hpp"
#include "core/failure.hpp"
#include "core/message.hpp"
#include "core/option.hpp"
#include "core/owned.hpp"
#include "directory_access.hpp"
#include "directory_files.hpp"
#include "files/descriptor.hpp"
#include "files/file.hpp"
#include "files/path.hpp"
#include "hdf5/hdf5.hpp"
#include "mirror.hpp"
#include "ranks/background.hpp"
#include "ranks/collectives.hpp"
#include "ranks/nodes.hpp"
#include "reader.hpp"
#include "retention.hpp"
#include "rota/checkpoint_directory.hpp"
#include "save.hpp"
#include "snapshot_data.hpp"

namespace rota {

using checkpoint::CommitPage;

namespace {

using internal::thrown_by;

// What `work` returns. What it throws is an Error: in a world of one, agreement does not make it one.
template <typename Work>
auto with_errors(Work&& work) {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (...) {
    const internal::Caught what = internal::caught();
    if (what.is_out_of_memory) throw Error(ErrorCode::io, "save or restore: " + what.message);
    throw Error(what.code, what.message, what.cause);
  }
}

constexpr std::string_view kOpen = "open a checkpoint directory";

}  // namespace

struct CheckpointDirectory::Impl {
  /// What a save in the background works on.
  struct InBackground {
    checkpoint::Staging staging;
    Snapshot snapshot;
    CommitPage page;  // once it is saved
  };

  Impl(const Communicator& comm, std::filesystem::path where, const CheckpointPolicy& rules,
       const internal::FileSystem& files)
      : system(files), nodes(comm.duplicate(rules.deadline)), path(std::move(where)), policy(rules) {
    ranks.together(kOpen, [&] {
      rules.validate();
      path = internal::path_on_disk(
          path,
          "checkpoints go to a file system first; name a directory there, and as the option mirror the "
          "store, which gets a copy of each");
      if (!path.empty()) path = internal::absolute_path(path.native());  // the working directory may change
    });
    ranks::require_same(ranks, kOpen, checkpoint::describe(policy));
    ranks::on_first_rank(ranks, kOpen, [&] { open_directory(); });
    directory.job_id = ranks::broadcast(ranks, directory.job_id);
    directory.is_locked = ranks::broadcast(ranks, directory.is_locked);
  }

  // Rank 0 makes and locks it, and draws the id of this job.
  void open_directory() {
    directory = checkpoint::open_directory(system, path);
    run_id = directory.job_id;
    if (policy.mirror.storage != nullptr) {
      mirror.emplace(policy.mirror);
      if (const auto copies = mirror->serials(); !copies.empty()) highest = copies.front();
    }
    // HDF5's first use calls MPI, and is not to be left to a thread in the background.
    static_cast<void>(hdf5::lock());
  }

  [[nodiscard]] std::filesystem::path file_path(std::int64_t serial) const {
    return path / checkpoint::checkpoint_name(serial);
  }

  // Collective: the same as rank 0 sees it.
  std::vector<std::int64_t> serials(std::string_view what) {
    return ranks::on_first_rank(ranks, what, [&] { return checkpoint::list_serials(system, path); });
  }

  // Collective: opens and verifies, each rank its share.
  Checkpoint open(std::int64_t serial) {
    CheckpointReader reader = CheckpointReader::open(ranks, system, file_path(serial), serial);
    go_on_from(reader.page());
    return std::move(reader).finish();
  }

  // Collective. A run that goes back from its newest checkpoint is another from there: what it left stays.
  void go_on_from(const CommitPage& page) {
    parent = page.serial;
    ranks::on_first_rank(ranks, "look for newer checkpoints", [&] {
      run_id = retention.go_on_from(page, run_id, rejected) ? page.run_id : checkpoint::random_id();
    });
  }

  // Collective: of the copies in the mirror.
  std::vector<std::int64_t> copies() {
    if (policy.mirror.storage == nullptr) return {};
    return ranks::on_first_rank(ranks, "list the mirror", [&] { return mirror->serials(); });
  }

  // Collective: nothing where it is damaged.
  std::optional<Checkpoint> open_if_good(std::int64_t serial) {
    try {
      return with_errors([&] { return open(serial); });
    } catch (const Error& error) {
      // A file that cannot be read now may be good, and an older state is no answer to that.
      if (error.code() != ErrorCode::corrupt) throw;
      rejected.push_back({.path = file_path(serial), .reason = error.what()});
      return std::nullopt;
    }
  }

  // Collective: from the mirror. Ranks meet after each piece, so that none waits past the deadline.
  void fetch(std::int64_t serial) {
    std::optional<checkpoint::Mirror::Fetch> fetch;
    for (bool is_more = true; is_more;) {
      is_more = ranks::on_first_rank(ranks, "bring a checkpoint from the mirror", [&] {
        if (!fetch) {
          fetch.emplace(*mirror, serial, system,
                        path / checkpoint::temporary_name(serial, checkpoint::to_hex(directory.job_id)));
        }
        if (fetch->go_on()) return true;
        fetch->publish(file_path(serial), directory.file);
        return false;
      });
    }
  }

  // Collective: past what was rejected before.
  std::optional<Checkpoint> latest_below(std::int64_t bound) {
    const std::vector<std::int64_t> here = serials("look for the latest checkpoint");
    const std::vector<std::int64_t> copied = copies();
    std::vector<std::int64_t> all;
    std::ranges::set_union(here, copied, std::back_inserter(all), std::greater());
    for (const std::int64_t serial : all) {
      if (serial >= bound) continue;
      if (std::ranges::binary_search(here, serial, std::greater())) {
        if (auto good = open_if_good(serial)) return good;
      }
      if (!std::ranges::binary_search(copied, serial, std::greater())) continue;
      for (int tries = 0; tries < 2; ++tries) {  // the first may have been damaged on its way
        if (tries > 0) rejected.pop_back();
        fetch(serial);
        if (auto good = open_if_good(serial)) return good;
      }
    }
    if (rejected.empty()) return std::nullopt;
    std::string reasons;
    for (const CheckpointDirectory::Rejected& bad : rejected)
      reasons += fmt::format("\n  {}: {}", bad.path.filename().string(), bad.reason);
    throw internal::failure(ErrorCode::corrupt,
                            "restore from {}: it has checkpoints, and none is good; move them away to start "
                            "anew, or bring back a good one:{}",
                            path.string(), reasons);
  }

  // Collective. On whatever thread.
  CommitPage write(std::int64_t step, const checkpoint::SnapshotData& data, const std::exception_ptr& error) {
    const checkpoint::SaveTarget target{.system = system,
                                        .nodes = nodes,
                                        .directory = path,
                                        .directory_file = directory.file,
                                        .job_id = directory.job_id,
                                        .run_id = run_id,
                                        .parent = parent,
                                        .above = highest,
                                        .step = step};
    retention.finish();  // the space may be needed
    const CommitPage page = with_errors([&] { return checkpoint::save(target, data, error); });
    if (ranks.rank() == 0) {
      if (mirror) mirror->copy(page.serial, file_path(page.serial));
      // Whatever comes of it: the save is done, and other ranks have heard so.
      static_cast<void>(thrown_by([&] { retention.add(page, rejected); }));
    }
    took = std::chrono::steady_clock::now() - began;
    return page;
  }

  SaveReport report(const CommitPage& page) {
    parent = highest = page.serial;
    return {.info = checkpoint::to_info(page, file_path(page.serial)),
            .seconds = took.count(),
            .mirror_error = mirror ? mirror->take_failures() : std::string()};
  }

  static void check(std::int64_t step, const Snapshot& snapshot) {
    internal::OptionCheck("save a checkpoint").in_range("step", step, 0);
    static_cast<void>(SnapshotAccess::data(snapshot));  // throws where it was moved from
  }

  SaveReport save(std::int64_t step, const Snapshot& snapshot, std::exception_ptr error) {
    wait();
    began = std::chrono::steady_clock::now();
    if (!error) error = thrown_by([&] { check(step, snapshot); });
    const Snapshot none;
    return report(write(step, SnapshotAccess::data(error ? none : snapshot), error));
  }

  void save_async(std::int64_t step, Snapshot snapshot, std::exception_ptr error) {
    wait();
    began = std::chrono::steady_clock::now();
    const auto failed = thrown_by([&] {
      check(step, snapshot);
      SnapshotAccess::data(snapshot).copy_views(in_background.staging);
    });
    if (!error) error = failed;
    in_background.snapshot = failed ? Snapshot() : std::move(snapshot);
    background.emplace(ranks, [this, step, error] {
      in_background.page = write(step, SnapshotAccess::data(std::as_const(in_background.snapshot)), error);
    });
  }

  // Collective: the end of a save in the background, if there is one.
  std::optional<SaveReport> wait() {
    if (!background) return std::nullopt;
    const auto error = thrown_by([&] { background->finish("wait for a save"); });
    background.reset();
    in_background.snapshot = Snapshot();
    if (error) std::rethrow_exception(error);
    return report(in_background.page);
  }

  const internal::FileSystem& system;
  ranks::Nodes nodes;
  const Communicator& ranks = nodes.all();
  std::filesystem::path path;
  CheckpointPolicy policy;
  checkpoint::Retention retention{system, path, policy};  // rank 0
  std::optional<checkpoint::Mirror> mirror;               // rank 0
  checkpoint::LockedDirectory directory;                  // other ranks: without the lock
  checkpoint::RunId run_id{};                             // rank 0: of the next save
  std::int64_t parent = -1;
  std::int64_t highest = -1;  // that was saved here, or is in the mirror
  std::vector<CheckpointDirectory::Rejected> rejected;

  std::chrono::steady_clock::time_point began;  // of the last save
  std::chrono::duration<double> took{};
  InBackground in_background;
  std::optional<ranks::Background> background;  // dies first: it uses all of the above
};

CheckpointDirectory::CheckpointDirectory(const Communicator& comm, std::filesystem::path path,
                                         const CheckpointPolicy& policy)
    : impl_(new Impl(comm, std::move(path), policy, internal::posix_file_system())) {}
CheckpointDirectory::CheckpointDirectory(Impl* impl) noexcept : impl_(impl) {}
CheckpointDirectory::~CheckpointDirectory() { finish(); }
CheckpointDirectory::CheckpointDirectory(CheckpointDirectory&&) noexcept = default;
CheckpointDirectory& CheckpointDirectory::operator=(CheckpointDirectory&& other) noexcept {
  if (this == &other) return *this;
  finish();
  impl_ = std::move(other.impl_);
  return *this;
}

// **Collective**, where a save is under way: one that nobody has waited for is not lost.
void CheckpointDirectory::finish() noexcept {
  if (!impl_ || !impl_.get_deleter().is_here() || !impl_->background) return;
  if (ranks::has_ended(impl_->ranks) || std::uncaught_exceptions() > 0) return;
  try {
    impl_->wait();
  } catch (...) {
    internal::tell(fmt::format("a save in the background failed: {}",
                               internal::caught(std::current_exception()).message));
  }
}

void CheckpointDirectory::give_up_save() noexcept {
  if (!impl_ || !impl_.get_deleter().is_here()) return;
  impl_->background.reset();
  impl_->in_background.snapshot = Snapshot();
}

CheckpointDirectory::Impl& CheckpointDirectory::impl() const {
  return internal::owned(impl_, "a directory of checkpoints");
}

SaveReport CheckpointDirectory::save(std::int64_t step, const Snapshot& snapshot) {
  return impl().save(step, snapshot, nullptr);
}

SaveReport CheckpointDirectory::save_with(std::int64_t step, const std::function<void(Snapshot&)>& fill) {
  Snapshot snapshot = new_snapshot();
  const auto error = thrown_by([&] { fill(snapshot); });
  return impl().save(step, snapshot, error);
}

void CheckpointDirectory::save_async(std::int64_t step, Snapshot snapshot) {
  impl().save_async(step, std::move(snapshot), nullptr);
}

void CheckpointDirectory::save_async_with(std::int64_t step, const std::function<void(Snapshot&)>& fill) {
  Snapshot snapshot = new_snapshot();
  const auto error = thrown_by([&] { fill(snapshot); });
  impl().save_async(step, std::move(snapshot), error);
}

bool CheckpointDirectory::poll() noexcept {
  return !impl_ || !impl_.get_deleter().is_here() || !impl_->background || impl_->background->poll();
}

std::optional<SaveReport> CheckpointDirectory::wait() { return impl().wait(); }

void CheckpointDirectory::wait_for_mirror() {
  impl().wait();
  ranks::on_first_rank(impl().ranks, "copy checkpoints to the mirror", [&] {
    if (!impl().mirror) return;
    impl().mirror->wait();
    const std::string failed = impl().mirror->take_failures();
    if (!failed.empty()) throw Error(ErrorCode::io, failed);
  });
}

Snapshot CheckpointDirectory::new_snapshot() const {
  Snapshot snapshot;
  if (impl().ranks.size() == 1) SnapshotAccess::data(snapshot).set_alone();
  return snapshot;
}

std::optional<Checkpoint> CheckpointDirectory::restore_with(
    const std::function<void(const Checkpoint&)>& read) {
  std::optional<Checkpoint> checkpoint = latest();
  while (checkpoint) {
    try {
      ranks::agree(impl().ranks, "restore states",
                   thrown_by([&] { with_errors([&] { read(*checkpoint); }); }));
      break;
    } catch (const Error& damage) {
      if (damage.code() != ErrorCode::corrupt) throw;
      const CheckpointInfo info = std::exchange(checkpoint, std::nullopt)->info();
      impl().rejected.push_back({.path = info.path, .reason = damage.what()});
      checkpoint = impl().latest_below(info.serial);
    }
  }
  if (checkpoint && impl().ranks.rank() == 0 && !rejected().empty()) {
    internal::tell(fmt::format("restored {}, for {} is damaged: {}", checkpoint->info().path.string(),
                               rejected()[0].path.filename().string(), rejected()[0].reason));
  }
  return checkpoint;
}

std::optional<Checkpoint> CheckpointDirectory::latest() {
  impl().wait();
  impl().rejected.clear();
  return impl().latest_below(std::numeric_limits<std::int64_t>::max());
}

std::span<const CheckpointDirectory::Rejected> CheckpointDirectory::rejected() const {
  return impl().rejected;
}

Checkpoint CheckpointDirectory::open(std::int64_t serial) {
  impl().wait();
  const std::vector<std::int64_t> present = impl().serials(fmt::format("open checkpoint {}", serial));
  if (std::ranges::find(present, serial) == present.end()) {
    throw internal::failure(ErrorCode::not_found, "open checkpoint {} of {}: it has {}", serial,
                            path().string(),
                            present.empty() ? "none" : fmt::format("{}", fmt::join(present, ", ")));
  }
  return impl().open(serial);
}

std::vector<CheckpointInfo> CheckpointDirectory::list() {
  impl().wait();
  const auto pages = ranks::on_first_rank(impl().ranks, "list checkpoints",
                                          [&] { return checkpoint::list_pages(impl().system, path()); });
  std::vector<CheckpointInfo> infos(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i)
    infos[i] = checkpoint::to_info(pages[i], impl().file_path(pages[i].serial));
  return infos;
}

const std::filesystem::path& CheckpointDirectory::path() const { return impl().path; }

bool CheckpointDirectory::is_locked() const { return impl().directory.is_locked; }

CheckpointDirectory CheckpointDirectoryAccess::open(const Communicator& comm, std::filesystem::path path,
                                                    const CheckpointPolicy& policy,
                                                    const internal::FileSystem& system) {
  return CheckpointDirectory(new CheckpointDirectory::Impl(comm, std::move(path), policy, system));
}

}  // namespace rota
