#pragma once

// Data in object stores and behind web servers. Next: storage.hpp, for places of your own.

#include <chrono>
#include <memory>
#include <string>

#include "rota/storage.hpp"

namespace rota {

/// How a storage makes its requests. What may pass is tried again: lost connections, answers that stall, 408,
/// 429 and 5xx; for 10 seconds also a server that has never answered. What fails for more than 5 seconds is
/// told to the MessageSink, once a minute. Nothing of an answer that is cut short, or of another version, is
/// delivered.
struct HttpOptions {
  int connections = 32;  ///< of each thread that reads; 1 to 1,024
  /// For a request with all its tries. Then Error{timeout} names what was wanted and what failed last.
  std::chrono::milliseconds deadline = std::chrono::minutes(3);
  /// An answer that brings less than 1 KiB a second for so long is broken off; whole seconds.
  std::chrono::seconds stall{20};
  /// Before the second try. It doubles for each further one, up to 15 s, and is cut at random to a half at
  /// least.
  std::chrono::milliseconds retry_wait{100};
  std::string ca_file = {};  ///< certificates to trust; empty: SSL_CERT_FILE for web servers, or the system's

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// Who asks. In none of rota's messages is there any of it.
struct S3Credentials {
  std::string access_key = {};
  std::string secret_key = {};
  std::string session_token = {};  ///< of temporary ones
};

/// What is empty comes from the environment, as it does for other programs:
///
/// - `region`: AWS_REGION, AWS_DEFAULT_REGION, the profile; else us-east-1. A bucket that is elsewhere is
/// found.
/// - `endpoint`: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, `endpoint_url` of the profile or of its services' s3;
///   else Amazon's.
/// - `credentials`: AWS_ACCESS_KEY_ID and the like, the profile AWS_PROFILE of ~/.aws/credentials and
///   ~/.aws/config or its `credential_process`, a web identity, the container, the machine. They are renewed
///   before they end.
/// - HttpOptions::ca_file: AWS_CA_BUNDLE.
struct S3Options {
  std::string region = {};
  std::string endpoint = {};  ///< of another store: "https://store.local:9000"; buckets are in its path
  S3Credentials credentials = {};
  bool is_anonymous = false;    ///< requests are not signed
  bool requester_pays = false;  ///< whoever asks pays; also AWS_REQUEST_PAYER=requester
  HttpOptions http = {};

  /// Throws Error{invalid_argument}.
  void validate() const;
};

/// S3, or a store that answers as it does. Names are "bucket/key". A file's version is its ETag. It reads by
/// ranges: those of a file that lie no more than 1 MiB apart in one request, and large ones in parts of 8
/// MiB, all under way at once. Any thread. Throws Error{invalid_argument} for the options. When it is used it
/// throws
///
/// - Error{not_found}: no such bucket,
/// - Error{io}: no permission, a wrong secret, nobody there, a certificate that does not hold,
/// - Error{corrupt}: an object that has changed since it was listed,
/// - Error{timeout}: no answer within the deadline.
///
/// It writes files of more than 16 MiB in parts, eight of 8 MiB at a time, or of a 10,000th of the file. A
/// write that fails removes its parts; those of a process that was killed stay, unless a rule of the bucket
/// ends such uploads.
std::shared_ptr<const Storage> s3_storage(S3Options options = {});

/// Files behind a web server that answers to ranges. Names are "host/path". It cannot list. `scheme` is https
/// or http. Otherwise as s3_storage.
std::shared_ptr<const Storage> http_storage(std::string scheme = "https", HttpOptions options = {});

/// S3, https and http, by those schemes. A catalog looks here for schemes that CatalogOptions::storages does
/// not have. Always the same ones.
const Storages& storages_from_environment();

/// Where `path`, "SCHEME://NAME", leads: into one of `storages`, or of those from the environment. Throws
/// Error{invalid_argument} where it has no scheme, Error{not_found} where no storage has that.
StoredPath stored_path(const std::string& path, const Storages& storages = {});

}  // namespace rota
