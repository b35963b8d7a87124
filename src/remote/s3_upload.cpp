// Objects of S3 that are written and removed.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <pugixml.hpp>
#include <string>
#include <utility>
#include <vector>

#include "remote/s3_server.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::uint64_t kMostAlone = std::uint64_t{16} << 20;
constexpr std::uint64_t kLeastPart = std::uint64_t{8} << 20;
constexpr std::uint64_t kMostParts = 10'000;  // S3's limit
constexpr std::size_t kUnderWay = 8;

using Query = std::vector<std::pair<std::string, std::string>>;

/// A request that changes an object.
class Change : public Transfer {
 public:
  Change(const S3Server& server, std::string_view name) : server_(server), name_(name) {}
  [[nodiscard]] std::string what() const override { return "write " + server_.path(name_); }

 protected:
  [[nodiscard]] const S3Server& server() const noexcept { return server_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  // Of what is no success: false where it is to be tried again. Throws else.
  [[nodiscard]] bool refused(const HttpAnswer& answer) const { return !server_.judge(answer, name_, what()); }

 private:
  const S3Server& server_;
  std::string name_;
};

/// Sends bytes [begin, end): an object, or a part of one.
class Put final : public Change {
 public:
  Put(const S3Server& server, std::string_view name, Query query, std::uint64_t begin, std::uint64_t end,
      const Fill& fill)
      : Change(server, name), query_(std::move(query)), begin_(begin), end_(end), fill_(fill) {}

  HttpRequest request() override {
    std::string body(end_ - begin_, '\0');
    if (!body.empty()) fill_(begin_, std::as_writable_bytes(std::span(body)));
    return server().send("PUT", name(), query_, std::move(body));
  }
  bool finish(const HttpAnswer& answer) override {
    if (!answer.is_success()) return refused(answer);
    etag_ = answer.header("etag");
    if (!etag_.empty()) return true;
    trouble = "the answer has no ETag";
    return false;
  }
  [[nodiscard]] const std::string& etag() const noexcept { return etag_; }

 private:
  Query query_;
  std::uint64_t begin_;
  std::uint64_t end_;
  const Fill& fill_;
  std::string etag_ = {};
};

/// Asks for an upload in parts.
class Begin final : public Change {
 public:
  using Change::Change;
  HttpRequest request() override { return server().send("POST", name(), {{"uploads", ""}}, {}); }
  bool finish(const HttpAnswer& answer) override {
    if (!answer.is_success()) return refused(answer);
    pugi::xml_document document;
    document.load_buffer(answer.body.data(), answer.body.size());
    id_ = document.child("InitiateMultipartUploadResult").child_value("UploadId");
    if (!id_.empty()) return true;
    trouble = "the answer names no upload";
    return false;
  }
  [[nodiscard]] const std::string& id() const noexcept { return id_; }

 private:
  std::string id_ = {};
};

/// Makes the parts one object.
class Complete final : public Change {
 public:
  Complete(const S3Server& server, std::string_view name, std::string id, std::string parts)
      : Change(server, name), id_(std::move(id)), parts_(std::move(parts)) {}
  HttpRequest request() override {
    HttpRequest made = server().send("POST", name(), {{"uploadId", id_}}, parts_);
    made.may_stall = true;  // the store copies all parts first
    return made;
  }
  bool finish(const HttpAnswer& answer) override {
    is_gone_ = answer.status == 404;
    if (is_gone_) return true;
    if (!answer.is_success()) return refused(answer);
    pugi::xml_document document;  // which may say that it failed, in spite of status 200
    document.load_buffer(answer.body.data(), answer.body.size());
    if (document.child("CompleteMultipartUploadResult")) return true;
    trouble = fmt::format("status 200 without a result: {}", code_in(answer.body));
    return false;
  }
  /// Whether the store has no such upload: an earlier try may have ended it, of which no answer came.
  [[nodiscard]] bool is_gone() const noexcept { return is_gone_; }

 private:
  std::string id_;
  std::string parts_;
  bool is_gone_ = false;
};

/// Gives up an upload in parts.
class Abort final : public Change {
 public:
  Abort(const S3Server& server, std::string_view name, std::string id)
      : Change(server, name), id_(std::move(id)) {}
  HttpRequest request() override { return server().send("DELETE", name(), {{"uploadId", id_}}, {}); }
  bool finish(const HttpAnswer& /*answer*/) override { return true; }
  // What fails waits for it.
  [[nodiscard]] std::chrono::milliseconds deadline() const override { return std::chrono::seconds(10); }

 private:
  std::string id_;
};

class Remove final : public Change {
 public:
  using Change::Change;
  [[nodiscard]] std::string what() const override { return "remove " + server().path(name()); }
  HttpRequest request() override { return server().send("DELETE", name(), {}, {}); }
  bool finish(const HttpAnswer& answer) override {
    return answer.is_success() || answer.status == 404 || refused(answer);
  }
};

// Of what has the name now; 0 where nothing has. Who may write need not be allowed to ask, and hears then
// that he may not, also of what is not there.
std::uint64_t present_version(const HttpClient& client, const S3Server& server, std::string_view name) {
  try {
    const auto found = find_file(client, server, name);
    return found ? found->version : 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return 0;
  }
}

// Returns what completes the upload: the ETags of its parts.
std::string put_parts(const HttpClient& client, const S3Server& server, std::string_view name,
                      const std::string& id, std::uint64_t bytes, const Fill& fill) {
  const std::uint64_t part = std::max(kLeastPart, (bytes + kMostParts - 1) / kMostParts);
  std::string etags = "<CompleteMultipartUpload>";
  std::uint64_t number = 1;
  for (std::uint64_t begin = 0; begin < bytes;) {
    std::deque<Put> puts;
    std::vector<Transfer*> transfers;
    const std::uint64_t first = number;
    for (; begin < bytes && puts.size() < kUnderWay; begin += part, ++number) {
      puts.emplace_back(server, name, Query{{"partNumber", fmt::format("{}", number)}, {"uploadId", id}},
                        begin, std::min(begin + part, bytes), fill);
      transfers.push_back(&puts.back());
    }
    client.run(transfers);
    for (std::size_t i = 0; i < puts.size(); ++i) {
      if (puts[i].error != nullptr) std::rethrow_exception(puts[i].error);
      etags +=
          fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", first + i, puts[i].etag());
    }
  }
  return etags + "</CompleteMultipartUpload>";
}

}  // namespace

void upload(const HttpClient& client, const S3Server& server, std::string_view name, std::uint64_t bytes,
            const Fill& fill) {
  if (bytes <= kMostAlone) {
    Put whole(server, name, {}, 0, bytes, fill);
    return client.run(whole);
  }
  const std::uint64_t before = present_version(client, server, name);
  Begin begin(server, name);
  client.run(begin);
  try {
    Complete complete(server, name, begin.id(), put_parts(client, server, name, begin.id(), bytes, fill));
    client.run(complete);
    if (!complete.is_gone()) return;
    const auto found = find_file(client, server, name);
    const bool is_new = found && found->version != before;
    if (is_new && found->bytes == bytes) return;
    throw Error(ErrorCode::io, complete.what() + ": the store has lost its parts");
  } catch (...) {
    Abort abort(server, name, begin.id());
    try {
      client.run(abort);
    } catch (...) {  // what is thrown tells more
    }
    throw;
  }
}

void remove_object(const HttpClient& client, const S3Server& server, std::string_view name) {
  Remove remove(server, name);
  client.run(remove);
}

}  // namespace rota::internal
