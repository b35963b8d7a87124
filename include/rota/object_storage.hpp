#pragma once

// Data in S3 and on web servers. Next: storage.hpp, for storages of your own.

#include <chrono>
#include <memory>
#include <string>

#include "rota/storage.hpp"

namespace rota {

/// How a storage makes its requests. It retries lost connections, stalled answers, 408, 429 and 5xx, and for
/// 12 seconds also a server that has never answered. A request that fails for more than 5 seconds is reported
/// to the MessageSink, once a minute. Answers that are cut short, or of another version, are never delivered.
struct HttpOptions {
  int connections = 32;  ///< per reading thread; 1 to 1,024
  /// Of a request, retries included. After it, Error{timeout} names the file and the last failure.
  std::chrono::milliseconds deadline = std::chrono::minutes(3);
  /// An answer slower than 1 KiB/s for this long is retried.
  std::chrono::seconds stall{20};
  /// Wait before the first retry. It doubles each time, up to 15 s; the actual wait is a random 50 to 100 %.
  std::chrono::milliseconds retry_wait{100};
  /// Certificates to trust, or a directory of them. Empty: SSL_CERT_FILE, SSL_CERT_DIR; else the system's,
  /// where libcurl was built to look, or where Linux systems have them.
  std::string ca_file = {};

  /// Throws Error{invalid_argument} naming the option, its value and what it may be.
  void validate() const;
};

/// Empty options are taken from the environment and the files of profiles, as other S3 programs do:
/// docs/open.md lists from where. Keys are renewed before they expire. A bucket in another region is found.
struct S3Options {
  std::string region = {};
  std::string endpoint = {};  ///< of another store: "https://store.local:9000"
  /// Where the bucket is named: "virtual", in the host's name, or "path". Empty: the profile's
  /// addressing_style; else in the host's name of Amazon's, and in the path of another store.
  std::string addressing = {};
  std::string access_key = {};  ///< keys never appear in messages
  std::string secret_key = {};
  std::string session_token = {};  ///< of temporary keys
  bool is_anonymous = false;       ///< requests are not signed
  bool requester_pays = false;     ///< this account pays for requests; also AWS_REQUEST_PAYER=requester
  HttpOptions http = {};

  /// Throws Error{invalid_argument}.
  void validate() const;
};

/// S3, or a store that is compatible. Names are "bucket/key"; a file's version is its ETag. Ranges of a file
/// that lie at most 1 MiB apart are read in one request, large ones in parts of 8 MiB, all at once. Any
/// thread. Throws Error{invalid_argument} for the options. In use it throws
///
/// - Error{not_found}: no such bucket,
/// - Error{io}: no permission, a wrong secret, no server, an invalid certificate,
/// - Error{corrupt}: an object that has changed since it was listed,
/// - Error{timeout}: no answer within the deadline.
///
/// Files of more than 16 MiB are written in parts of 8 MiB (or a 10,000th of the file), eight at a time. A
/// failed write removes its parts. Parts of a killed process stay, unless a rule of the bucket ends such
/// uploads.
std::shared_ptr<const Storage> s3_storage(S3Options options = {});

/// Files on a web server that supports ranges. Names are "host/path". It cannot list. `scheme` is https or
/// http. Otherwise as s3_storage.
std::shared_ptr<const Storage> http_storage(std::string scheme = "https", HttpOptions options = {});

/// The storages of the schemes s3, https and http, made once with default options. Catalogs use them for
/// schemes that CatalogOptions::storages lacks.
const Storages& storages_from_environment();

/// Finds the storage for `path`, "SCHEME://NAME", in `storages`, else in storages_from_environment(). Throws
/// Error{invalid_argument} without a scheme, Error{not_found} for an unknown one.
StoredPath stored_path(const std::string& path, const Storages& storages = {});

}  // namespace rota
