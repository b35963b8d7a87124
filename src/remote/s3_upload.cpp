// Objects of S3 that are written and removed.

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <pugixml.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/caught.hpp"
#include "remote/s3_server.hpp"
#include "rota/error.hpp"

namespace rota::internal {
namespace {

constexpr std::uint64_t kMostAlone = std::uint64_t{16} << 20;
constexpr std::uint64_t kLeastPart = std::uint64_t{8} << 20;
constexpr std::uint64_t kMostParts = 10'000;  // S3's limit
constexpr std::size_t kUnderWay = 8;

/// A request that changes an object.
class Change final : public Transfer {
 public:
  /// Takes what is needed from the answer of a success. Where it returns nothing, the request is sent again.
  using Take = std::function<std::string(const HttpAnswer&)>;

  Change(const S3Server& server, std::string_view name, std::function<HttpRequest()> make, Take take,
         std::string_view task = "write")
      : server_(server), name_(name), make_(std::move(make)), take_(std::move(take)), task_(task) {}
  /// Status 404 is an end, too.
  void allow_gone() noexcept { may_be_gone_ = true; }
  [[nodiscard]] bool is_gone() const noexcept { return is_gone_; }
  /// Of `take`.
  [[nodiscard]] const std::string& result() const noexcept { return result_; }

  [[nodiscard]] std::string what() const override { return fmt::format("{} {}", task_, server_.path(name_)); }
  HttpRequest request() override { return make_(); }
  bool finish(const HttpAnswer& answer) override {
    is_gone_ = answer.status == 404 && may_be_gone_;
    if (is_gone_) return true;
    if (!answer.is_success()) return !server_.judge(answer, name_, what());
    result_ = take_(answer);
    if (result_.empty()) trouble = fmt::format("status 200 without a result: {}", code_in(answer.body));
    return !result_.empty();
  }

 private:
  const S3Server& server_;
  std::string name_;
  std::function<HttpRequest()> make_;
  Take take_;
  std::string_view task_;
  bool may_be_gone_ = false;
  bool is_gone_ = false;
  std::string result_;
};

std::string etag_of(const HttpAnswer& answer) { return std::string(answer.header("etag")); }
std::string nothing_of(const HttpAnswer& /*answer*/) { return "done"; }

// Bytes [begin, end) as the body of a request.
std::string body_of(const Fill& fill, std::uint64_t begin, std::uint64_t end) {
  std::string body(end - begin, '\0');
  if (!body.empty()) fill(begin, std::as_writable_bytes(std::span(body)));
  return body;
}

}  // namespace

// The version of what has the name now; 0 where nothing has. Who may write need not be allowed to read, and
// is then refused, also for what is not there.
std::uint64_t S3Server::version_now(std::string_view name) const {
  try {
    const auto found = find(name);
    return found ? found->version : 0;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    return 0;
  }
}

// Returns what completes the upload: the ETags of its parts.
std::string S3Server::put_parts(std::string_view name, const std::string& id, std::uint64_t bytes,
                                const Fill& fill) const {
  const std::uint64_t part = std::max(kLeastPart, (bytes + kMostParts - 1) / kMostParts);
  std::string etags = "<CompleteMultipartUpload>";
  std::uint64_t number = 1;
  for (std::uint64_t begin = 0; begin < bytes;) {
    std::deque<Change> puts;
    std::vector<Transfer*> transfers;
    const std::uint64_t first = number;
    for (; begin < bytes && puts.size() < kUnderWay; begin += part, ++number) {
      const auto put = [&, number, begin, end = std::min(begin + part, bytes)] {
        return sign(name,
                    {.method = "PUT", .query = {{"partNumber", fmt::format("{}", number)}, {"uploadId", id}}},
                    body_of(fill, begin, end));
      };
      transfers.push_back(&puts.emplace_back(*this, name, put, etag_of));
    }
    client().run(transfers);
    for (std::size_t i = 0; i < puts.size(); ++i) {
      if (puts[i].error != nullptr) std::rethrow_exception(puts[i].error);
      etags +=
          fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", first + i, puts[i].result());
    }
  }
  return etags + "</CompleteMultipartUpload>";
}

// Makes the parts one object, in place of version `before`.
void S3Server::complete(std::string_view name, const std::string& id, const std::string& parts,
                        std::uint64_t before, std::uint64_t bytes) const {
  const auto post = [&] {
    HttpRequest made = sign(name, {.method = "POST", .query = {{"uploadId", id}}}, parts);
    made.may_stall = true;  // the store copies all parts first
    return made;
  };
  const auto take = [](const HttpAnswer& answer) -> std::string {  // status 200 may still be a failure
    pugi::xml_document document;
    document.load_buffer(answer.body.data(), answer.body.size());
    return document.child("CompleteMultipartUploadResult").name();
  };
  Change complete(*this, name, post, take);
  complete.allow_gone();  // an earlier try may have ended it, of which no answer came
  client().run(complete);
  if (!complete.is_gone()) return;
  const auto found = find(name);
  if (found && found->version != before && found->bytes == bytes) return;
  throw Error(ErrorCode::io, complete.what() + ": the store has lost its parts");
}

void S3Server::write(std::string_view name, std::uint64_t bytes, const Fill& fill) const {
  if (bytes <= kMostAlone) {
    Change put(
        *this, name, [&] { return sign(name, {.method = "PUT"}, body_of(fill, 0, bytes)); }, etag_of);
    return client().run(put);
  }
  const std::uint64_t before = version_now(name);
  Change begin(
      *this, name,
      [&] {
        return sign(name, {.method = "POST", .query = {{"uploads", ""}}});
      },
      [](const HttpAnswer& answer) -> std::string {
        pugi::xml_document document;
        document.load_buffer(answer.body.data(), answer.body.size());
        return document.child("InitiateMultipartUploadResult").child_value("UploadId");
      });
  client().run(begin);
  const std::string& id = begin.result();
  try {
    complete(name, id, put_parts(name, id, bytes, fill), before, bytes);
  } catch (...) {
    Change abort(
        *this, name,
        [&] {
          return sign(name, {.method = "DELETE", .query = {{"uploadId", id}}});
        },
        nothing_of);
    abort.deadline = std::chrono::seconds(10);      // the caller waits for it
    (void)thrown_by([&] { client().run(abort); });  // the first error says more
    throw;
  }
}

void S3Server::remove(std::string_view name) const {
  Change remove(
      *this, name, [&] { return sign(name, {.method = "DELETE"}); }, nothing_of, "remove");
  remove.allow_gone();
  client().run(remove);
}

}  // namespace rota::internal
