#include "remote/s3_page.hpp"

#include <fmt/format.h>

#include <pugixml.hpp>

#include "remote/http.hpp"
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
    const auto bytes = number_in(item.child_value("Size"));
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

}  // namespace rota::internal
