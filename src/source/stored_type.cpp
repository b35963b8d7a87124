#include "source/stored_type.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/bytes.hpp"
#include "core/failure.hpp"
#include "source/content.hpp"
#include "source/field_check.hpp"

namespace rota::internal {

StoredType StoredType::of(DType dtype, bool is_swapped, std::vector<std::int64_t> shape) {
  StoredType type{.bytes = size_of(dtype), .parts = {}};
  for (const std::int64_t extent : shape) type.bytes *= static_cast<std::size_t>(extent);
  type.parts.push_back(
      {.dtype = dtype, .is_swapped = is_swapped, .shape = std::move(shape), .bytes = type.bytes});
  return type;
}

bool StoredType::is_numbers() const noexcept {
  return parts.size() == 1 && !parts[0].is_long() && parts[0].bytes == bytes;
}

bool StoredType::is_short_text() const noexcept {
  return parts.size() == 1 && parts[0].name.empty() && parts[0].is_text() && !parts[0].is_elsewhere();
}

bool StoredType::joins_with(const StoredType& other) const noexcept {
  if (!is_short_text() || !other.is_short_text()) return *this == other;
  return parts[0].kind == other.parts[0].kind && parts[0].is_swapped == other.parts[0].is_swapped;
}

bool StoredType::add_to(StoredType& whole, std::string_view name, std::size_t offset,
                        const std::vector<std::int64_t>& shape) const {
  const bool is_one = std::ranges::all_of(shape, [](std::int64_t extent) { return extent == 1; });
  if (!is_one && !is_numbers()) return false;
  for (StoredPart part : parts) {
    if (!name.empty()) part.name.insert(0, name).insert(0, 1, '.');
    part.offset += offset;
    if (!part.is_long()) part.shape.insert(part.shape.begin(), shape.begin(), shape.end());
    for (const std::int64_t extent : shape) {
      if (__builtin_mul_overflow(part.bytes, static_cast<std::size_t>(extent), &part.bytes)) return false;
    }
    whole.parts.push_back(std::move(part));
  }
  return true;
}

Field StoredType::as_stored(std::string name, std::vector<std::int64_t> shape, bool ragged) const {
  const std::vector<std::int64_t> axes =
      is_numbers() ? parts[0].shape : std::vector<std::int64_t>{static_cast<std::int64_t>(bytes)};
  shape.insert(shape.end(), axes.begin(), axes.end());
  return {.name = std::move(name),
          .dtype = is_numbers() ? parts[0].dtype : DType::uint8,
          .shape = std::move(shape),
          .ragged = ragged};
}

namespace {

std::size_t without_last(std::span<const std::byte> text, std::byte filling) {
  std::size_t bytes = text.size();
  while (bytes > 0 && text[bytes - 1] == filling) --bytes;
  return bytes;
}

// Code points to UTF-8 (RFC 3629); what is none becomes U+FFFD.
void append_utf8(std::string& to, std::uint32_t c) {
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
  if (c < 0x80) {
    to += static_cast<char>(c);
    return;
  }
  const unsigned tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  to += static_cast<char>((0xff00U >> (tail + 1) & 0xffU) | c >> (6 * tail));
  for (unsigned i = tail; i-- > 0;) to += static_cast<char>(0x80U | (c >> (6 * i) & 0x3fU));
}

// The text in `from`, the place of such a part.
std::string text_of(const StoredPart& part, std::span<const std::byte> from) {
  if (part.kind == StoredKind::utf32) {
    std::string text;
    for (std::size_t end = without_last(from, std::byte{0}), i = 0; i < end; i += sizeof(std::uint32_t))
      append_utf8(text, part.is_swapped ? __builtin_bswap32(load<std::uint32_t>(from, i))
                                        : load<std::uint32_t>(from, i));
    return text;
  }
  std::size_t bytes = without_last(from, std::byte{0});  // where others have wider places
  if (part.kind == StoredKind::text_of_blanks) bytes = without_last(from.first(bytes), std::byte{' '});
  if (part.kind == StoredKind::text_to_zero)
    bytes = static_cast<std::size_t>(std::ranges::find(from, std::byte{0}) - from.begin());
  return {reinterpret_cast<const char*>(from.data()), bytes};
}

void swap_elements(std::span<std::byte> values, std::size_t element) {
  for (std::size_t at = 0; at < values.size(); at += element)
    std::ranges::reverse(values.subspan(at, element));
}

/// A field that is given, and where in those of the inner source it is.
struct PartOf {
  std::size_t field;
  std::size_t element_bytes;
  bool is_all;  // of the element: it needs no memory beside
  StoredPart part;
};

class Decoded final : public SourceAdaptor {
 public:
  Decoded(std::shared_ptr<const Source> source, std::vector<Field> fields, std::vector<PartOf> parts,
          StoredReads reads)
      : SourceAdaptor(std::move(source)),
        fields_(std::move(fields)),
        parts_(std::move(parts)),
        reads_(std::move(reads)) {}

  [[nodiscard]] const std::vector<Field>& fields() const override { return fields_; }
  [[nodiscard]] Fingerprint fingerprint() const override {
    return FingerprintBuilder().add(to_string(inner().fingerprint())).add(describe(fields_)).finish();
  }

  void rows(std::span<const SampleId> ids, std::size_t field, std::span<std::int64_t> out) const override {
    const auto& [inner_field, element_bytes, is_all, part] = parts_[field];
    if (!part.is_long()) return inner().rows(ids, inner_field, out);
    const std::vector<std::byte> stored = read_field(ids, inner_field);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto place = std::span(stored).subspan(i * element_bytes + part.offset, part.bytes);
      out[i] =
          part.is_elsewhere() ? std::int64_t{load<std::uint32_t>(place)} : std::ssize(text_of(part, place));
    }
  }

  void read(std::span<const SampleId> ids, const BatchView& out) const override {
    const std::vector<Field>& stored = inner().fields();
    std::vector<std::vector<std::byte>> memory(stored.size());
    std::vector<std::vector<std::int64_t>> offsets(stored.size());
    std::vector<BatchView::FieldMemory> views(stored.size());
    for (std::size_t f = 0; f < parts_.size(); ++f) {
      const std::size_t g = parts_[f].field;
      views[g].row_bytes = stored[g].row_bytes();
      std::size_t rows = ids.size();
      if (stored[g].ragged) {
        offsets[g] = offsets_of(out, f, fields_[f].row_bytes());
        views[g].offsets = offsets[g].data();
        rows = static_cast<std::size_t>(offsets[g].back());
      }
      if (!parts_[f].is_all) memory[g].resize(rows * views[g].row_bytes);
      views[g].data = parts_[f].is_all ? out.all(f).data() : memory[g].data();
    }
    inner().read(ids, BatchView(views, 0, ids.size(), out.epochs()));
    for (std::size_t f = 0; f < parts_.size(); ++f) decode(ids, out, f, memory[parts_[f].field]);
  }

 private:
  // Field f of `out` from the elements that `stored` holds, or where it is, if it is all of them.
  void decode(std::span<const SampleId> ids, const BatchView& out, std::size_t f,
              std::span<const std::byte> stored) const {
    const auto& [inner_field, element_bytes, is_all, part] = parts_[f];
    if (part.is_elsewhere()) {
      std::vector<std::byte> references;
      std::vector<std::span<std::byte>> to;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto place = stored.subspan(i * element_bytes + part.offset, part.bytes);
        references.insert(references.end(), place.begin(), place.end());
        to.push_back(out.bytes(f, i));
      }
      reads_.heap(ids, inner_field, references, to);
    } else if (part.is_long()) {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::string text = text_of(part, stored.subspan(i * element_bytes + part.offset, part.bytes));
        const std::span<std::byte> to = out.bytes(f, i);
        std::ranges::copy(std::as_bytes(std::span(text)).first(std::min(text.size(), to.size())), to.begin());
      }
      return;
    } else if (!is_all) {
      std::byte* to = out.all(f).data();
      for (std::size_t at = 0; at < stored.size(); at += element_bytes, to += part.bytes)
        std::memcpy(to, &stored[at + part.offset], part.bytes);
    }
    if (part.is_swapped) swap_elements(out.all(f), size_of(part.dtype));
  }

  // Of all samples, side by side.
  [[nodiscard]] std::vector<std::byte> read_field(std::span<const SampleId> ids, std::size_t field) const {
    const std::size_t bytes = inner().fields()[field].row_bytes();
    std::vector<std::byte> stored(ids.size() * bytes);
    if (reads_.field) {
      reads_.field(ids, field, stored);
    } else {
      for (std::size_t i = 0; i < ids.size(); ++i) {
        OneSample one(inner(), ids[i]);
        one.read();
        std::ranges::copy(one.data(field), &stored[i * bytes]);
      }
    }
    return stored;
  }

  [[nodiscard]] std::unique_ptr<const Source> wrap(std::shared_ptr<const Source> inner) const override {
    return std::make_unique<Decoded>(std::move(inner), fields_, parts_, reads_);
  }

  std::vector<Field> fields_;
  std::vector<PartOf> parts_;  // by field
  StoredReads reads_;
};

// Whether `read` gives it as it is.
bool is_native(const StoredType& type) {
  return type.is_numbers() && !type.parts[0].is_swapped && type.parts[0].name.empty();
}

}  // namespace

std::shared_ptr<const Source> decode_stored(std::shared_ptr<const Source> source,
                                            const std::vector<StoredType>& types, std::string_view task,
                                            StoredReads reads) {
  if (std::ranges::all_of(types, is_native)) return source;
  std::vector<Field> fields;
  std::vector<PartOf> parts;
  for (std::size_t f = 0; f < types.size(); ++f) {
    const Field& stored = source->fields()[f];
    const std::size_t axes = types[f].is_numbers() ? types[f].parts[0].shape.size() : 1;
    const std::vector<std::int64_t> shape(stored.shape.begin(),
                                          stored.shape.end() - static_cast<std::ptrdiff_t>(axes));
    for (const StoredPart& part : types[f].parts) {
      Field field{
          .name = stored.name + part.name, .dtype = part.dtype, .shape = shape, .ragged = stored.ragged};
      const bool is_one = std::ranges::all_of(shape, [](std::int64_t extent) { return extent == 1; });
      if (part.is_long() && (stored.ragged || !is_one)) {
        throw failure(ErrorCode::unsupported,
                      "{}: \"{}\" has several texts or sequences in a sample, and rota reads one: write it "
                      "with one in each row, or leave it out",
                      task, field.name);
      }
      field.ragged = field.ragged || part.is_long();
      if (part.is_long()) field.shape.clear();
      field.shape.insert(field.shape.end(), part.shape.begin(), part.shape.end());
      fields.push_back(std::move(field));
      parts.push_back(
          {.field = f, .element_bytes = types[f].bytes, .is_all = types[f].is_numbers(), .part = part});
    }
  }
  check_fields(fields, task, "the file", ErrorCode::unsupported);
  return std::make_shared<Decoded>(std::move(source), std::move(fields), std::move(parts), std::move(reads));
}

}  // namespace rota::internal
