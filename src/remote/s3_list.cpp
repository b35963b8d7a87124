// Lists of the objects of S3.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iterator>
#include <list>
#include <memory>
#include <pugixml.hpp>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/failure.hpp"
#include "core/text.hpp"
#include "remote/http.hpp"
#include "remote/s3_server.hpp"
#include "remote/server.hpp"

namespace rota::internal {

S3Page parse_page(std::string_view xml, std::string_view bucket, std::string_view token,
                  std::string& trouble) {
  const auto fail = [&](std::string why) {
    trouble = std::move(why);
    return S3Page();
  };
  pugi::xml_document document;
  const bool is_whole = document.load_buffer(xml.data(), xml.size()).status == pugi::status_ok;
  const pugi::xml_node list = document.child("ListBucketResult");
  if (!is_whole || !list) {
    const std::string_view code = code_in(xml);
    return fail(fmt::format("the answer is no list{}{}", code.empty() ? "" : ": ", code));
  }
  S3Page page;
  const bool is_encoded = std::string_view(list.child_value("EncodingType")) == "url";
  const auto name = [&](std::string_view key) {
    return fmt::format("{}/{}", bucket, is_encoded ? percent_decoded(key) : std::string(key));
  };
  for (const pugi::xml_node item : list.children("Contents")) {
    const auto bytes = whole_number<std::uint64_t>(item.child_value("Size"));
    if (!bytes) return fail("the list has an object without a size");
    page.files.push_back({.name = name(item.child_value("Key")),
                          .bytes = *bytes,
                          .version = version_of(item.child_value("ETag"))});
  }
  for (const pugi::xml_node item : list.children("CommonPrefixes")) {
    page.directories.push_back(name(item.child_value("Prefix")));
  }
  const std::string_view goes_on = list.child_value("IsTruncated");
  if (goes_on == "true") {
    page.next = list.child_value("NextContinuationToken");
    if (page.next.empty() || page.next == token) return fail("the list says that it goes on, and not where");
  } else if (goes_on != "false") {
    return fail("the list does not say whether it goes on");
  }
  return page;
}

namespace {

constexpr std::size_t kNamesOfDirectory = 50;            // at least, where it is listed by itself
constexpr std::size_t kMostHeld = std::size_t{1} << 20;  // names that wait for others before them

/// Pages of the names that begin alike, one after the other.
class Pages final : public Transfer {
 public:
  Pages(const S3Server& server, std::string prefix, bool by_directory)
      : server_(server), prefix_(std::move(prefix)), by_directory_(by_directory) {}

  [[nodiscard]] std::string what() const override { return "list " + server_.path(prefix_); }
  // Of keys that begin alike. By directory: those below stand for what lies in them.
  HttpRequest request() override {
    const ObjectName at(prefix_);
    SignedRequest made{
        .query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", std::string(at.key)}}};
    if (by_directory_) made.query.emplace_back("delimiter", "/");
    if (!page_.next.empty()) made.query.emplace_back("continuation-token", page_.next);
    return server_.sign(at.bucket, std::move(made));
  }

  bool finish(const HttpAnswer& answer) override {
    if (!answer.is_success()) return !server_.judge(answer, prefix_, what());
    server_.require_own(answer, what());
    if (!trimmed(answer.body).starts_with('<')) {
      throw failure(ErrorCode::io,
                    "{}: what answers knows nothing of S3: check the endpoint (AWS_ENDPOINT_URL)", what());
    }
    S3Page page = parse_page(answer.body, ObjectName(prefix_).bucket, page_.next, trouble);
    const bool is_below = std::ranges::all_of(page.directories, [&](const std::string& directory) {
      return directory.starts_with(prefix_) && directory.size() > prefix_.size();
    });
    if (trouble.empty() && !is_below) trouble = "the list has directories that were not requested";
    if (!trouble.empty()) return false;
    require_progress(page);
    page_ = std::move(page);
    return true;
  }

  [[nodiscard]] const std::string& prefix() const noexcept { return prefix_; }
  [[nodiscard]] S3Page& page() noexcept { return page_; }

  /// Whether this is the first of several pages, and of few directories, which are likely to have many more.
  [[nodiscard]] bool lies_in_few() const {
    std::size_t entries = 0;
    std::string_view before;
    for (const StoredFile& file : page_.files) {
      std::string_view entry = file.name;
      entry.remove_prefix(std::min(prefix_.size(), entry.size()));
      entry = entry.substr(0, entry.find('/'));
      if (entries == 0 || entry != before) ++entries;
      before = entry;
    }
    return !by_directory_ && pages_ == 1 && !page_.next.empty() && entries > 0 &&
           entries * kNamesOfDirectory <= page_.files.size();
  }

 private:
  // Pages may be empty; but a list that goes round, or brings nothing, would be requested without end.
  void require_progress(const S3Page& page) {
    ++pages_;
    const auto now = std::chrono::steady_clock::now();
    if (!page.files.empty() || !page.directories.empty()) last_name_ = now;
    const bool goes_round = !page.next.empty() && !tokens_.insert(page.next).second;
    if (!goes_round && (page.next.empty() || now - last_name_ < server_.deadline())) return;
    throw failure(ErrorCode::io, "{}: after {} pages the server {}; its list never ends", what(), pages_,
                  goes_round ? "goes on where it has gone on before" : "has had no new name for long");
  }

  const S3Server& server_;
  std::string prefix_;
  bool by_directory_;
  S3Page page_ = {};
  std::int64_t pages_ = 0;
  std::unordered_set<std::string> tokens_ = {};
  std::chrono::steady_clock::time_point last_name_ = std::chrono::steady_clock::now();
};

/// Lists beside each other, delivered in order.
class List {
 public:
  List(const HttpClient& client, const S3Server& server, std::string_view prefix, std::size_t at_once)
      : client_(client), server_(server), at_once_(at_once) {
    pieces_.push_back({.pages = pages_of(std::string(prefix), false)});
  }

  void run(const std::function<void(const StoredFile&)>& visit) {
    while (!pieces_.empty()) {
      fetch();
      while (!pieces_.empty()) {
        Piece& first = pieces_.front();
        for (const StoredFile& file : first.files) {
          require_order(file.name);
          visit(file);
        }
        held_ -= first.files.size();
        first.files.clear();
        if (first.pages != nullptr) break;
        pieces_.pop_front();
      }
    }
  }

 private:
  // Names that have come, and the pages that follow them, if any.
  struct Piece {
    std::vector<StoredFile> files = {};
    std::unique_ptr<Pages> pages = {};
  };
  using At = std::list<Piece>::iterator;

  [[nodiscard]] std::unique_ptr<Pages> pages_of(std::string prefix, bool by_directory) const {
    return std::make_unique<Pages>(server_, std::move(prefix), by_directory);
  }

  void require_order(const std::string& name) {
    if (!last_.empty() && name <= last_) {
      throw failure(ErrorCode::corrupt,
                    "list {}: the store lists \"{}\" after \"{}\", and S3 lists names in order, each once",
                    server_.path(name), name, last_);
    }
    last_ = name;
  }

  // The next page of each of the first pieces.
  void fetch() {
    std::vector<At> fetched;
    std::vector<Transfer*> transfers;
    for (auto at = pieces_.begin(); at != pieces_.end() && fetched.size() < at_once_; ++at) {
      if (at->pages == nullptr) continue;
      if (!fetched.empty() && held_ >= kMostHeld) break;
      fetched.push_back(at);
      transfers.push_back(at->pages.get());
    }
    client_.run(transfers);
    for (const At at : fetched) {
      if (at->pages->error != nullptr) std::rethrow_exception(at->pages->error);
      if (at->pages->lies_in_few()) {
        at->pages = pages_of(at->pages->prefix(), true);  // and leaves this page to its directories
      } else {
        take(at);
      }
    }
  }

  // Puts the directories of a page, with the files that have come before each, in front of the rest.
  void take(At at) {
    S3Page& page = at->pages->page();
    held_ += page.files.size();
    std::ranges::move(page.files, std::back_inserter(at->files));
    page.files.clear();
    auto file = at->files.begin();
    for (std::string& directory : page.directories) {
      const auto end =
          std::find_if(file, at->files.end(), [&](const StoredFile& one) { return one.name > directory; });
      pieces_.insert(at, {.files = {std::make_move_iterator(file), std::make_move_iterator(end)},
                          .pages = pages_of(std::move(directory), false)});
      file = end;
    }
    at->files.erase(at->files.begin(), file);
    page.directories.clear();
    if (page.next.empty()) at->pages.reset();
  }

  const HttpClient& client_;
  const S3Server& server_;
  std::size_t at_once_;
  std::string last_ = {};    // that was visited
  std::list<Piece> pieces_;  // in the order of their names
  std::size_t held_ = 0;     // names in them
};

}  // namespace

void S3Server::list(std::string_view prefix, const std::function<void(const StoredFile&)>& visit) const {
  List(client(), *this, prefix, static_cast<std::size_t>(options_.http.connections)).run(visit);
}

}  // namespace rota::internal
