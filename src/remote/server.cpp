#include "remote/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "core/failure.hpp"
#include "core/option.hpp"
#include "core/read_tally.hpp"
#include "core/text.hpp"
#include "files/reads.hpp"
#include "remote/credentials.hpp"
#include "rota/fingerprint.hpp"
#include "rota/object_storage.hpp"

namespace rota::internal {
namespace {

// Of a header.
std::optional<std::uint64_t> bytes_in(std::string_view text) { return whole_number<std::uint64_t>(text); }

class Find final : public Transfer {
 public:
  Find(const Server& server, std::string_view name) : server_(server), name_(name) {}
  [[nodiscard]] std::string what() const override { return "ask for " + server_.path(name_); }
  // What a HEAD is refused, or leaves open, is asked of the first byte: a URL may be signed for GET alone,
  // and an answer without a body does not say why.
  HttpRequest request() override {
    return asks_by_get_ ? server_.request("GET", name_, "bytes=0-0") : server_.request("HEAD", name_, {});
  }
  bool accepts(const HttpAnswer& head) override {
    if (!asks_by_get_ || (head.status != 200 && head.status != 206)) return false;
    const auto range = parse_content_range(head.header("content-range"));
    const auto bytes = head.status == 200 ? bytes_in(head.header("content-length"))
                       : range            ? range->bytes
                                          : std::nullopt;
    if (head.status == 200 && bytes.value_or(0) > kRequests.bytes) {
      throw Error(ErrorCode::unsupported, what() + ": the server sends all of it where a part is asked for");
    }
    note(head, bytes);
    return true;
  }
  [[nodiscard]] bool has_all() const override { return found_.has_value(); }
  bool finish(const HttpAnswer& answer) override {
    if (answer.status == 404 || found_) return true;
    if (answer.status == 200) server_.require_own(answer, what());
    if (!asks_by_get_) {
      const auto bytes = bytes_in(answer.header("content-length"));
      asks_by_get_ = answer.status != 200 || bytes.value_or(0) == 0;
      if (!asks_by_get_) note(answer, bytes);
      return !asks_by_get_;
    }
    if (answer.status != 416) return !server_.judge(answer, name_, what());
    note(answer, 0);  // there is no first byte
    return true;
  }
  [[nodiscard]] const std::optional<StoredFile>& found() const noexcept { return found_; }

 private:
  void note(const HttpAnswer& answer, std::optional<std::uint64_t> bytes) {
    if (!bytes) {
      throw Error(ErrorCode::unsupported, what() + ": the server does not say how many bytes it has");
    }
    found_ = StoredFile{.name = name_, .bytes = *bytes, .version = version_of(answer)};
  }

  const Server& server_;
  std::string name_;
  bool asks_by_get_ = false;
  std::optional<StoredFile> found_ = {};
};

/// Bytes [begin, end) of a file, for all that want some of them.
class Range final : public Transfer {
 public:
  Range(const Server& server, const JoinedReads<StoredBytes>::Read& read)
      : server_(server), all_(read.wanted), wanted_(all_), begin_(read.begin), at_(begin_), end_(read.end) {}

  [[nodiscard]] std::string what() const override { return "read " + server_.path(file().name); }

  // What has come of a try that failed is not asked for again, unless nobody can tell whether the rest
  // belongs to it.
  HttpRequest request() override {
    if (file().version == 0) begin_anew();
    begun_ = ReadClock::now();
    return server_.request("GET", file().name, fmt::format("bytes={}-{}", at_, end_ - 1));
  }

  bool accepts(const HttpAnswer& head) override {
    if (!head.is_success()) return false;
    const std::uint64_t version = version_of(head);
    if (version == 0 && file().version != 0) return doubt("it has no ETag, and had one when it was listed");
    if (file().version != 0 && version != file().version) {
      const std::string_view etag = head.header("etag");
      throw changed(etag.empty() ? fmt::format("it is of {} now",
                                               shown(head.header("last-modified").substr(0, kMostShown)))
                                 : fmt::format("its ETag is {} now", shown(etag.substr(0, kMostShown))));
    }
    const auto length = bytes_in(head.header("content-length"));
    if (head.status == 200) return accepts_all(length);
    const auto range = parse_content_range(head.header("content-range"));
    if (!range) return doubt("it does not say which bytes come");
    if (range->bytes.value_or(file().bytes) != file().bytes)
      throw changed(fmt::format("it has {} bytes now", *range->bytes));
    if (range->begin != at_ || range->end != end_) {
      return doubt(fmt::format("bytes [{}, {}) come, and [{}, {}) were asked for", range->begin, range->end,
                               at_, end_));
    }
    return !length || *length == end_ - at_ || doubt("it has another length than it says");
  }

  void take(std::span<const std::byte> bytes) override {
    if (bytes.size() > end_ - at_ && !is_all_) throw changed("more comes than it had");
    bytes = bytes.first(std::min<std::uint64_t>(bytes.size(), end_ - at_));
    const std::uint64_t until = at_ + bytes.size();
    while (!wanted_.empty() && wanted_[0].offset + wanted_[0].to.size() <= at_) wanted_ = wanted_.subspan(1);
    for (const StoredBytes& one : wanted_) {
      if (one.offset >= until) break;
      const std::uint64_t from = std::max(one.offset, at_);
      const std::uint64_t to = std::min(one.offset + one.to.size(), until);
      if (from < to) std::memcpy(one.to.data() + (from - one.offset), bytes.data() + (from - at_), to - from);
    }
    at_ = until;
  }

  [[nodiscard]] bool has_all() const override { return at_ == end_; }

  bool finish(const HttpAnswer& answer) override {
    if (answer.is_success() && !has_all()) return doubt("it ends early");
    if (answer.is_success()) {
      ReadTally::here().add(seconds_since(begun_), [&] { return server_.path(file().name); });
      return true;
    }
    if (answer.status == 404) throw Error(ErrorCode::not_found, what() + ": it is gone");
    if (answer.status == 416) throw changed("the server no longer has these bytes");
    return !server_.judge(answer, file().name, what());
  }

  /// Gives its error, if any, to all that want some of it.
  void report() const {
    for (StoredBytes& one : all_) {
      const bool is_of_it = one.offset < end_ && begin_ < one.offset + one.to.size();
      if (is_of_it && one.error == nullptr) one.error = error;
    }
  }

 private:
  [[nodiscard]] const StoredFile& file() const noexcept { return *file_; }
  [[nodiscard]] bool doubt(std::string why) {
    if (trouble.empty()) trouble = std::move(why);
    return false;
  }
  void begin_anew() noexcept {
    at_ = begin_;
    wanted_ = all_;
  }
  [[nodiscard]] Error changed(std::string_view how) const {
    return failure(ErrorCode::corrupt,
                   "{}: it has changed since it was listed: {}; list it again, as a dataset of its own",
                   what(), how);
  }
  // All of it, where a range was asked for.
  [[nodiscard]] bool accepts_all(std::optional<std::uint64_t> length) {
    if (length && *length != file().bytes) return doubt("status 200 with something else than the file");
    is_all_ = end_ <= kRequests.gap || (begin_ == 0 && end_ == file().bytes);  // little comes in vain
    if (is_all_) {
      begin_anew();
      at_ = 0;
      return true;
    }
    throw Error(
        ErrorCode::unsupported,
        what() + ": the server sends all of it where a part is asked for; rota needs one that knows ranges");
  }

  const Server& server_;
  std::span<StoredBytes> all_;
  std::span<StoredBytes> wanted_;  // what is still to come
  const StoredFile* file_ = all_[0].file;
  ReadClock::time_point begun_ = {};
  std::uint64_t begin_;
  std::uint64_t at_;     // all before it has come
  bool is_all_ = false;  // that comes, whatever was asked for
  std::uint64_t end_;
};

/// A file's name is its URL without the scheme.
class WebServer final : public Server {
 public:
  WebServer(std::string scheme, HttpOptions options)
      : Server(std::move(options)), scheme_(std::move(scheme)) {}

  void list(std::string_view prefix, const std::function<void(const StoredFile&)>& /*visit*/) const override {
    throw failure(ErrorCode::not_found,
                  "list {}: no file has this name, and a web server cannot list others; name each file",
                  path(prefix));
  }
  [[nodiscard]] std::string path(std::string_view name) const override {
    return fmt::format("{}://{}", scheme_, name);
  }
  [[nodiscard]] HttpRequest request(std::string_view method, std::string_view name,
                                    std::string_view range) const override {
    if (name.find('#') != std::string_view::npos) {  // clients do not send what follows it
      throw failure(ErrorCode::invalid_argument, "read {}: write %23 for the \"#\" in its name", path(name));
    }
    HttpRequest made{.method = std::string(method), .url = path(name), .may_redirect = true};
    if (!range.empty()) made.headers.push_back(fmt::format("Range: {}", range));
    return made;
  }
  [[nodiscard]] bool judge(const HttpAnswer& answer, std::string_view /*name*/,
                           const std::string& what) const override {
    const std::string_view header = answer.header("x-error-message");  // of Hugging Face
    throw failure(ErrorCode::io, "{}: status {}{}{}", what, answer.status,
                  said_in(answer, header.empty() ? answer.body : header),
                  answer.status == 401 || answer.status == 403
                      ? "; rota sends no credentials to web servers: take a signed URL, or what downloads it"
                      : "");
  }

 private:
  std::string scheme_;
};

}  // namespace

std::uint64_t version_of(const HttpAnswer& answer) {
  const std::uint64_t version = version_of(answer.header("etag"));
  return version != 0 ? version : version_of(answer.header("last-modified"));
}

std::uint64_t version_of(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  if (etag.size() >= 2 && etag.starts_with('"') && etag.ends_with('"'))
    etag = etag.substr(1, etag.size() - 2);
  if (etag.empty()) return 0;
  const Fingerprint hash = FingerprintBuilder().add(etag).finish();
  return std::max<std::uint64_t>(hash.low, 1);
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || slash < dash) return std::nullopt;
  const auto begin = bytes_in(text.substr(0, dash));
  const auto last = bytes_in(text.substr(dash + 1, slash - dash - 1));
  const auto bytes = bytes_in(text.substr(slash + 1));
  if (!begin || !last || *last < *begin || *last + 1 == 0 || (!bytes && text.substr(slash + 1) != "*"))
    return std::nullopt;
  return ContentRange{.begin = *begin, .end = *last + 1, .bytes = bytes};
}

std::optional<StoredFile> Server::find(std::string_view name) const {
  Find find(*this, name);
  client_.run(find);
  return find.found();
}

void Server::read(std::span<StoredBytes> wanted) const {
  JoinedReads<StoredBytes> reads(wanted, kRequests);
  std::deque<Range> ranges;
  std::vector<Transfer*> transfers;
  while (const auto read = reads.next()) transfers.push_back(&ranges.emplace_back(*this, *read));
  client_.run(transfers);
  for (const Range& range : ranges) range.report();
}

}  // namespace rota::internal

namespace rota {

std::shared_ptr<const Storage> http_storage(std::string scheme, HttpOptions options) {
  options.validate();
  for (const char* const name : {"SSL_CERT_FILE", "SSL_CERT_DIR"})
    if (options.ca_file.empty()) options.ca_file = internal::environment(name);
  if (scheme != "http" && scheme != "https")
    internal::OptionCheck("make a storage").refuse("scheme", scheme, "http or https");
  return std::make_shared<const internal::WebServer>(std::move(scheme), std::move(options));
}

}  // namespace rota
