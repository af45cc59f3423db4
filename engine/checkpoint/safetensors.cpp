#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/checkpoint/quote.h"
#include "engine/checkpoint/strict_json.h"

namespace parbuckle {
namespace {

constexpr std::int64_t length_bytes = 8;
constexpr std::size_t most_dimensions = 64;

/// Takes the parser's events; anything that is not a header stops it at once, so nesting and size stay bounded.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& name) : name_(name) {}

  bool null() { return scalar("null"); }
  bool boolean(bool value) { return scalar(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return scalar(std::to_string(value)); }
  bool number_float(double /*value*/, const std::string& text) { return scalar(text); }
  bool number_unsigned(std::uint64_t value) {
    if ((place_ != Place::shape && place_ != Place::offsets) ||
        value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return scalar(std::to_string(value));
    }
    std::vector<std::int64_t>& into = place_ == Place::shape ? tensor_.shape : offsets_;
    if (into.size() == most_dimensions) {
      return fail(where() + " has more than " + std::to_string(most_dimensions) + " entries");
    }
    into.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      if (!result_.metadata.emplace(field_, std::move(value)).second) {
        return fail("__metadata__: key " + quote(field_) + " appears twice");
      }
      return true;
    }
    if (place_ != Place::tensor || field_ != "dtype") {
      return scalar(quote(value));
    }
    const auto type = storage_type_from_safetensors(value);
    if (!type) {
      return fail("tensor " + quote(tensor_.name) + ": dtype " + quote(value) +
                  " does not exist in this format");
    }
    tensor_.type = *type;
    return true;
  }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }

  bool key(std::string& value) {
    if (place_ == Place::header) {
      name_in_header_ = std::move(value);
    } else if (place_ == Place::metadata) {
      field_ = std::move(value);
    } else {
      return tensor_field(std::move(value));
    }
    return true;
  }

  bool start_object(std::size_t /*size*/) {
    if (place_ == Place::outside) {
      place_ = Place::header;
      return true;
    }
    if (place_ != Place::header) {
      return scalar("an object");
    }
    if (name_in_header_ == "__metadata__") {
      place_ = Place::metadata;
      return !std::exchange(metadata_seen_, true) || fail("__metadata__ appears twice");
    }
    place_ = Place::tensor;
    tensor_ = TensorInfo();
    tensor_.name = name_in_header_;
    offsets_.clear();
    fields_seen_ = {};
    return true;
  }
  bool end_object() {
    if (place_ == Place::header) {
      place_ = Place::outside;
      return true;
    }
    const bool was_tensor = place_ == Place::tensor;
    place_ = Place::header;
    return !was_tensor || finish_tensor();
  }
  bool start_array(std::size_t /*size*/) {
    if (place_ == Place::tensor && field_ == "shape") {
      place_ = Place::shape;
      return true;
    }
    if (place_ == Place::tensor && field_ == "data_offsets") {
      place_ = Place::offsets;
      return true;
    }
    return scalar("an array");
  }
  bool end_array() {
    place_ = Place::tensor;
    return true;
  }
  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const nlohmann::json::exception& fault) {
    return fail("header is not valid JSON: " + json_fault(fault));
  }

  Result<Safetensors> take() {
    if (!fault_.ok()) {
      return fault_;
    }
    return std::move(result_);
  }

 private:
  enum class Place { outside, header, metadata, tensor, shape, offsets };
  static constexpr std::array<std::string_view, 3> field_names = {"dtype", "shape", "data_offsets"};

  bool fail(const std::string& what) {
    fault_ = invalid(name_ + ": " + what);
    return false;
  }
  std::string where() const { return "tensor " + quote(tensor_.name) + ": " + field_; }
  /// A value that must not stand here; says what may.
  bool scalar(const std::string& found) {
    switch (place_) {
      case Place::outside:
        return fail("header must be a JSON object, found " + found);
      case Place::header:
        return fail(quote(name_in_header_) + " must be an object, found " + found);
      case Place::metadata:
        return fail("__metadata__: value of " + quote(field_) + " must be a string, found " +
                    found);
      case Place::tensor:
        return fail(where() + " must be " + (field_ == "dtype" ? "a string" : "an array") +
                    ", found " + found);
      case Place::shape:
      case Place::offsets:
        return fail(where() + " must hold integers from 0 to 2^63 - 1, found " + found);
    }
    return false;
  }
  bool tensor_field(std::string name) {
    field_ = std::move(name);
    const auto* const at = std::find(field_names.begin(), field_names.end(), field_);
    if (at == field_names.end()) {
      return fail("tensor " + quote(tensor_.name) + ": unknown key " + quote(field_) +
                  "; allowed are dtype, shape, data_offsets");
    }
    bool& seen = fields_seen_[static_cast<std::size_t>(at - field_names.begin())];
    return !std::exchange(seen, true) || fail(where() + " appears twice");
  }
  bool finish_tensor() {
    for (std::size_t i = 0; i < field_names.size(); ++i) {
      if (!fields_seen_[i]) {
        return fail("tensor " + quote(tensor_.name) + ": " + std::string(field_names[i]) +
                    " is missing");
      }
    }
    field_ = "data_offsets";
    if (offsets_.size() != 2) {
      return fail(where() + " must be [begin, end], found " + std::to_string(offsets_.size()) +
                  " numbers");
    }
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    if (tensor_.end < tensor_.begin) {
      return fail(where() + " ends at " + std::to_string(tensor_.end) + ", before its begin " +
                  std::to_string(tensor_.begin));
    }
    const std::optional<std::int64_t> bytes = stored_bytes(tensor_);
    const std::string what = std::string(to_string(tensor_.type)) + " " + shape_text(tensor_.shape);
    if (!bytes) {
      return fail("tensor " + quote(tensor_.name) + ": the size of " + what +
                  " does not fit 64 bits or whole bytes");
    }
    if (*bytes != tensor_.end - tensor_.begin) {
      return fail("tensor " + quote(tensor_.name) + ": " + what + " needs " +
                  std::to_string(*bytes) + " bytes, data_offsets give " +
                  std::to_string(tensor_.end - tensor_.begin));
    }
    result_.tensors.push_back(std::move(tensor_));
    return true;
  }

  const std::string& name_;
  Place place_ = Place::outside;
  std::string name_in_header_;
  std::string field_;
  TensorInfo tensor_;
  std::vector<std::int64_t> offsets_;
  std::array<bool, 3> fields_seen_{};
  bool metadata_seen_ = false;
  Safetensors result_;
  Status fault_;
};

Status check_names(const std::string& file, const std::vector<TensorInfo>& tensors) {
  std::vector<std::string_view> names(tensors.size());
  std::transform(tensors.begin(), tensors.end(), names.begin(), [](const TensorInfo& t) {
    return std::string_view(t.name);
  });
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) {
    return invalid(file + ": tensor " + quote(*twice) + " appears twice");
  }
  return {};
}

std::string range_text(const TensorInfo& tensor) {
  return quote(tensor.name) + " (bytes " + std::to_string(tensor.begin) + ".." +
         std::to_string(tensor.end) + ")";
}

/// Sorts by position and checks that the tensors cover the data exactly. Offsets are relative to the data here.
Status check_layout(const std::string& file, std::vector<TensorInfo>& tensors, std::int64_t data) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const TensorInfo* previous = nullptr;
  std::int64_t covered = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < covered) {
      return invalid(file + ": tensor " + range_text(tensor) + " overlaps " +
                     range_text(*previous));
    }
    if (tensor.begin > covered) {
      return invalid(file + ": data bytes " + std::to_string(covered) + ".." +
                     std::to_string(tensor.begin) + " before tensor " + range_text(tensor) +
                     " belong to no tensor");
    }
    if (tensor.end > data) {
      return invalid(file + ": tensor " + range_text(tensor) +
                     " is cut off: the data end at byte " + std::to_string(data));
    }
    covered = tensor.end;
    previous = &tensor;
  }
  if (covered < data) {
    return invalid(file + ": data bytes " + std::to_string(covered) + ".." + std::to_string(data) +
                   " after the last tensor belong to no tensor");
  }
  return {};
}

/// The stated header length, checked against the file and the format's limit.
Result<std::int64_t> header_length(const InputFile& file) {
  std::string begin(static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 40)), '\0');
  PARBUCKLE_TRY(file.read(0, std::as_writable_bytes(std::span(begin))));
  std::uint64_t length = 0;
  if (begin.size() >= sizeof length) {
    std::memcpy(&length, begin.data(), sizeof length);
  }
  const auto limit = static_cast<std::uint64_t>(safetensors_header_limit);
  if (begin.size() < sizeof length || length > limit) {
    const std::string text = text_instead_of_weights(begin);
    if (!text.empty()) {
      return invalid(file.name() + ": " + text);
    }
  }
  if (begin.size() < sizeof length) {
    return invalid(file.name() + ": has " + std::to_string(file.size()) +
                   " bytes; a safetensors file begins with an 8-byte header length");
  }
  const std::int64_t room = file.size() - length_bytes;
  if (length > limit || static_cast<std::int64_t>(length) > room) {
    return invalid(file.name() + ": header length " + std::to_string(length) + " exceeds " +
                   (length > limit ? "the format's limit of " + std::to_string(limit)
                                   : "the " + std::to_string(room) + " bytes that follow") +
                   " (file size " + std::to_string(file.size()) + ")");
  }
  return static_cast<std::int64_t>(length);
}

}  // namespace

std::string text_instead_of_weights(std::string_view begin) {
  if (begin.substr(0, 26) == "version https://git-lfs.gi" ||
      begin.substr(0, 12) == "version http") {
    return "is a git-lfs pointer, not the weights: run 'git lfs pull' in its folder, or download "
           "the "
           "file itself";
  }
  if (begin.substr(0, 1) == "<") {
    return "is a web page, not weights (a failed download?): download the file itself";
  }
  if (begin.substr(0, 1) == "{") {
    return "is JSON text, not weights: download the file itself";
  }
  return "";
}

Result<Safetensors> read_safetensors(const InputFile& file) {
  PARBUCKLE_ASSIGN(const std::int64_t length, header_length(file));
  std::string header(static_cast<std::size_t>(length), '\0');
  PARBUCKLE_TRY(file.read(length_bytes, std::as_writable_bytes(std::span(header))));
  const std::size_t last = header.find_last_not_of(' ');
  if (last == std::string::npos || header[0] != '{') {
    return invalid(file.name() + ": header must be a JSON object, found " +
                   quote(std::string_view(header).substr(0, 20)));
  }
  if (header[last] != '}') {
    return invalid(
        file.name() + ": header is not a complete JSON object followed by spaces only, found " +
        quote(std::string_view(header).substr(0, last + 1).substr(last < 20 ? 0 : last - 20)) +
        " at its end");
  }
  HeaderReader reader(file.name());
  static_cast<void>(nlohmann::json::sax_parse(header, &reader));
  PARBUCKLE_ASSIGN(Safetensors result, reader.take());
  PARBUCKLE_TRY(check_names(file.name(), result.tensors));
  result.data_begin = length_bytes + length;
  PARBUCKLE_TRY(check_layout(file.name(), result.tensors, file.size() - result.data_begin));
  for (TensorInfo& tensor : result.tensors) {
    tensor.begin += result.data_begin;
    tensor.end += result.data_begin;
  }
  return result;
}

}  // namespace parbuckle
