// Rows of a database, read through one cursor by rank 0 and dispatched to all ranks. A run stops, or is
// killed, and goes on at any number of ranks; in the end all ranks together must have seen every row once.
//
//   mpirun -n 4 dispatch_sqlite --checkpoint c --stop-after 20
//   mpirun -n 3 dispatch_sqlite --checkpoint c
//
// Without --database it makes ./rows.db, if that is not there. Your own has a table `rows` of an integer
// `label` and a `text`.

#include <fmt/format.h>
#include <sqlite3.h>

#include <CLI/CLI.hpp>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "rota/rota.hpp"

namespace {

/// A statement on a database of its own. *One thread.*
class Query {
 public:
  Query(const std::string& path, const char* sql) : path_(path) {
    sqlite3* database = nullptr;
    const int opened =
        sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    database_.reset(database);
    require(opened == SQLITE_OK, "open");
    sqlite3_stmt* statement = nullptr;
    require(sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) == SQLITE_OK, "prepare");
    statement_.reset(statement);
  }
  void bind(int at, std::int64_t value) {
    require(sqlite3_bind_int64(statement_.get(), at, value) == SQLITE_OK, "bind");
  }
  /// Whether there is another row.
  bool step() {
    const int code = sqlite3_step(statement_.get());
    require(code == SQLITE_ROW || code == SQLITE_DONE, "read");
    return code == SQLITE_ROW;
  }
  [[nodiscard]] std::int64_t number(int column) const {
    return sqlite3_column_int64(statement_.get(), column);
  }
  [[nodiscard]] std::span<const std::byte> bytes(int column) const {
    const void* data = sqlite3_column_blob(statement_.get(), column);
    return {static_cast<const std::byte*>(data),
            static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
  }

 private:
  void require(bool holds, const char* what) const {
    if (holds) return;
    throw rota::Error(rota::ErrorCode::io,
                      fmt::format("{} {}: {}", what, path_, sqlite3_errmsg(database_.get())));
  }
  struct Close {
    void operator()(sqlite3* database) const noexcept { sqlite3_close(database); }
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
  std::unique_ptr<sqlite3_stmt, Close> statement_;
};

/// The table `rows` in the order of its rowids. A cursor is the last of them that was read.
class Rows final : public rota::StreamSource {
 public:
  explicit Rows(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::vector<rota::Field>& fields() const override { return fields_; }
  [[nodiscard]] std::int64_t shards() const override { return 1; }
  [[nodiscard]] std::int64_t cursor_numbers() const override { return 1; }
  [[nodiscard]] std::string where(rota::ShardId /*shard*/) const override { return path_; }
  [[nodiscard]] std::unique_ptr<rota::ShardStream> open(rota::ShardId /*shard*/, std::int64_t /*epoch*/,
                                                        const rota::StreamCursor& cursor) const override {
    return std::make_unique<Stream>(path_, cursor.is_start() ? 0 : cursor.numbers[0]);
  }

 private:
  class Stream final : public rota::ShardStream {
   public:
    Stream(const std::string& path, std::int64_t last)
        : last_(last), query_(path, "SELECT rowid, label, text FROM rows WHERE rowid > ? ORDER BY rowid") {
      query_.bind(1, last);
    }
    bool next(rota::StreamSample& out) override {
      is_over_ = is_over_ || !query_.step();
      if (is_over_) return false;
      last_ = query_.number(0);
      const std::int64_t label = query_.number(1);
      out.set(0, std::as_bytes(std::span(&label, 1)));
      out.set(1, query_.bytes(2));
      return true;
    }
    void cursor(rota::StreamCursor& out) const override { out.numbers.assign(1, last_); }

   private:
    std::int64_t last_;
    Query query_;
    bool is_over_ = false;
  };

  std::string path_;
  std::vector<rota::Field> fields_{
      {.name = "label", .dtype = rota::DType::int64, .shape = {}},
      {.name = "text", .dtype = rota::DType::uint8, .shape = {}, .ragged = true}};
};

/// What a rank has seen: rows, the sum of their labels, and bytes of text. Saved with the loader.
class Totals {
 public:
  using Values = std::array<std::int64_t, 3>;
  explicit Totals(const rota::Communicator& comm) : comm_(comm) {}

  void count(const rota::Batch& batch) {
    values_[0] += batch.size();
    for (const std::int64_t label : batch.tensor("label").as<std::int64_t>()) values_[1] += label;
    values_[2] += std::ssize(batch.tensor("text").bytes);
  }
  void save(rota::Snapshot& snapshot) const { snapshot.tensor("totals", {3}, 1, values_); }
  void restore(const rota::Checkpoint& checkpoint) {
    values_ = {};
    const auto rows = checkpoint.read<std::int64_t>("totals");
    for (std::size_t i = 0; i < rows.size() && comm_.rank() == 0; ++i) values_.at(i % 3) += rows[i];
  }
  /// **Collective.** Of all ranks.
  [[nodiscard]] Values all() const {
    Values values = values_;
    comm_.sum(std::span(values));
    return values;
  }

 private:
  const rota::Communicator& comm_;
  Values values_{};
};

void run_all(const std::string& path, std::initializer_list<const char*> statements) {
  for (const char* sql : statements) Query(path, sql).step();
}

/// Ten thousand rows whose rowids have gaps.
void make_database(const std::string& path) {
  run_all(path, {"CREATE TABLE rows (id INTEGER PRIMARY KEY, label INTEGER, text TEXT)",
                 "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
                 "INSERT INTO rows SELECT 3 * i, i, printf('%.*c', i % 100, 'x') FROM n"});
}

struct Options {
  std::string database;
  std::string checkpoint;
  std::int64_t batch = 64;
  std::int64_t stop_after = 0;
};

int run(const Options& options, const rota::Communicator& comm) {
  const std::string path = options.database.empty() ? "rows.db" : options.database;
  rota::Dispatch dispatch{.shards = 64};
  comm.together("open the database", [&] {
    if (comm.rank() != 0) return;
    std::error_code ignored;
    if (options.database.empty() && !std::filesystem::exists(path, ignored)) make_database(path);
    dispatch.source = std::make_shared<Rows>(path);
  });
  rota::StreamLoader loader(comm, dispatch, {.global_batch_size = options.batch});
  Totals totals(comm);
  std::optional<rota::CheckpointDirectory> checkpoints;
  if (!options.checkpoint.empty()) {
    checkpoints.emplace(comm, options.checkpoint);
    checkpoints->restore_all(loader, totals);
  }
  const std::int64_t first_step = loader.position().step;
  bool is_over = false;
  while (!is_over && (options.stop_after == 0 || loader.position().step < first_step + options.stop_after)) {
    const auto batch = loader.next();
    is_over = !batch;
    if (batch) totals.count(*batch);
    const bool is_due = loader.position().step % 10 == 0;
    if (checkpoints && is_due) checkpoints->save_all(loader.position().step, loader, totals);
  }
  if (checkpoints) checkpoints->save_all(loader.position().step, loader, totals);
  const Totals::Values seen = totals.all();
  if (comm.rank() != 0) return 0;
  fmt::print("{} ranks, from step {} to {}: {} rows so far\n", comm.size(), first_step,
             loader.position().step, seen[0]);
  if (!is_over) return 0;
  Query query(path, "SELECT count(*), sum(label), sum(length(CAST(text AS BLOB))) FROM rows");
  query.step();
  const bool is_all = seen == Totals::Values{query.number(0), query.number(1), query.number(2)};
  fmt::print("the end: {}\n", is_all ? "all rows were seen once" : "rows are missing, or were seen twice");
  return is_all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Reads the rows of a database on one rank, for all; stops and goes on at any number of ranks.");
  app.add_option("--database", options.database, "SQLite database with a table `rows`");
  app.add_option("--checkpoint", options.checkpoint, "Directory to go on from, and to save to");
  app.add_option("--batch", options.batch, "Global batch size")->capture_default_str();
  app.add_option("--stop-after", options.stop_after, "Stop after so many steps of this run")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  rota::mpi::Session session(argc, argv);
  return session.run([&] { return run(options, session.comm()); });
}
