#include "engine/checkpoint/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "parbuckle/units.h"

#include "engine/checkpoint/quote.h"
#include "engine/checkpoint/safetensors.h"

namespace parbuckle {
namespace {

constexpr std::uint32_t most_dimensions = 4;
constexpr std::uint64_t longest_key = 65535;
constexpr std::uint64_t longest_tensor_name = 64;
constexpr std::uint64_t least_pair_bytes = 8 + 4 + 1;  // key length, type, value
constexpr std::uint64_t least_tensor_bytes =
    8 + 4 + 4 + 8;  // name length, dimensions, type, offset
constexpr std::int64_t default_alignment = 32;
constexpr std::int64_t largest_alignment = 1 << 20;

enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64
};
constexpr std::uint32_t value_types = 13;
constexpr std::array<std::uint64_t, value_types> least_value_bytes = {
    1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};

/// Reads forward through the file with a small buffer. The first fault stays and turns every later read into zeros.
class Cursor {
 public:
  explicit Cursor(const InputFile& file) : file_(file) {}

  [[nodiscard]] const Status& fault() const { return fault_; }
  [[nodiscard]] std::int64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t left() const {
    return static_cast<std::uint64_t>(file_.size() - position_);
  }

  void fail(const std::string& what) {
    if (fault_.ok()) {
      fault_ = invalid(file_.name() + ": " + what);
    }
  }

  template <class T>
  T number(const char* what) {
    T value{};
    bytes(what, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  std::string text(const char* what, std::uint64_t longest) {
    const auto length = number<std::uint64_t>(what);
    if (!fault_.ok()) {
      return {};
    }
    if (length > left()) {
      fail(std::string(what) + " at byte " + std::to_string(position_) + " states a length of " +
           std::to_string(length) + "; " + std::to_string(left()) + " bytes are left");
      return {};
    }
    if (length > longest) {
      fail(std::string(what) + " at byte " + std::to_string(position_) + " has " +
           std::to_string(length) + " bytes; at most " + std::to_string(longest) + " are allowed");
      return {};
    }
    std::string value(static_cast<std::size_t>(length), '\0');
    bytes(what, std::as_writable_bytes(std::span(value)));
    return value;
  }

 private:
  void bytes(const char* what, std::span<std::byte> out) {
    if (!fault_.ok()) {
      return;
    }
    if (out.size() > left()) {
      return fail("ends inside " + std::string(what) + " at byte " + std::to_string(position_));
    }
    if (position_ + static_cast<std::int64_t>(out.size()) > gguf_metadata_limit) {
      return fail("metadata and tensor table exceed " + std::to_string(gguf_metadata_limit) +
                  " bytes");
    }
    while (!out.empty() && fault_.ok()) {
      if (position_ < buffer_begin_ || position_ >= buffer_end_) {
        fill();
        continue;
      }
      const auto from = static_cast<std::size_t>(position_ - buffer_begin_);
      const std::size_t count =
          std::min(out.size(), static_cast<std::size_t>(buffer_end_ - position_));
      std::memcpy(out.data(), buffer_.data() + from, count);
      position_ += static_cast<std::int64_t>(count);
      out = out.subspan(count);
    }
  }
  void fill() {
    buffer_begin_ = position_;
    buffer_end_ = std::min(position_ + static_cast<std::int64_t>(buffer_.size()), file_.size());
    const auto count = static_cast<std::size_t>(buffer_end_ - buffer_begin_);
    fault_ = file_.read(buffer_begin_, std::span(buffer_).first(count));
  }

  const InputFile& file_;
  std::int64_t position_ = 0;
  std::int64_t buffer_begin_ = 0;
  std::int64_t buffer_end_ = 0;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(std::size_t{64} << 10U);
  Status fault_;
};

class Parser {
 public:
  explicit Parser(const InputFile& file) : file_(file), in_(file) {}

  Result<Gguf> parse() {
    result_.file = file_.name();
    PARBUCKLE_TRY(check_begin());
    const auto tensors = in_.number<std::uint64_t>("the tensor count");
    const auto pairs = in_.number<std::uint64_t>("the metadata count");
    PARBUCKLE_TRY(check_count(tensors, least_tensor_bytes, "tensors"));
    PARBUCKLE_TRY(check_count(pairs, least_pair_bytes, "metadata pairs"));
    for (std::uint64_t i = 0; i < pairs && in_.fault().ok(); ++i) {
      read_pair();
    }
    PARBUCKLE_TRY(in_.fault());
    PARBUCKLE_TRY(check_metadata());
    for (std::uint64_t i = 0; i < tensors && in_.fault().ok(); ++i) {
      read_tensor();
    }
    PARBUCKLE_TRY(in_.fault());
    PARBUCKLE_TRY(place_tensors());
    return std::move(result_);
  }

 private:
  Status fail(const std::string& what) const { return invalid(file_.name() + ": " + what); }

  Status check_begin() {
    std::string begin(static_cast<std::size_t>(std::min<std::int64_t>(file_.size(), 40)), '\0');
    PARBUCKLE_TRY(file_.read(0, std::as_writable_bytes(std::span(begin))));
    if (begin.substr(0, 4) != "GGUF") {
      const std::string text = text_instead_of_weights(begin);
      return fail(!text.empty()
                      ? text
                      : "must begin with the magic 'GGUF', found " +
                            (begin.empty() ? "an empty file" : quote(begin.substr(0, 4))));
    }
    static_cast<void>(in_.number<std::uint32_t>("the magic"));
    result_.version = in_.number<std::uint32_t>("the version");
    PARBUCKLE_TRY(in_.fault());
    if (result_.version == 2 || result_.version == 3) {
      return {};
    }
    if (result_.version != 0 && (result_.version & 0xFFFFU) == 0) {
      return fail("version reads as " + std::to_string(result_.version) +
                  ": a big-endian file; only little-endian ones are read");
    }
    return fail("version " + std::to_string(result_.version) +
                (result_.version == 1 ? " (32-bit counts)" : "") +
                " is not supported; versions 2 and 3 are");
  }

  Status check_count(std::uint64_t count, std::uint64_t least_bytes, const char* what) {
    PARBUCKLE_TRY(in_.fault());
    if (count > in_.left() / least_bytes) {
      return fail("states " + std::to_string(count) + " " + what + "; " +
                  std::to_string(in_.left()) + " bytes are left");
    }
    return {};
  }

  void read_pair() {
    const std::string key = in_.text("a metadata key", longest_key);
    const auto type = in_.number<std::uint32_t>("a metadata type");
    if (!in_.fault().ok()) {
      return;
    }
    if (key.empty() || key.find('\0') != std::string::npos) {
      return in_.fail("metadata key " + quote(key) + " is empty or holds a NUL");
    }
    if (type >= value_types) {
      return in_.fail("metadata key " + quote(key) + ": unknown value type " +
                      std::to_string(type) + "; types 0 to 12 exist");
    }
    GgufValue value = static_cast<ValueType>(type) == ValueType::array
                          ? read_array(key)
                          : read_value(static_cast<ValueType>(type), key);
    if (in_.fault().ok() && !result_.metadata.emplace(key, std::move(value)).second) {
      in_.fail("metadata key " + quote(key) + " appears twice");
    }
  }

  /// REQUIRES: an integer type.
  std::int64_t read_integer(ValueType type, const std::string& key) {
    constexpr const char* what = "a metadata value";
    switch (type) {
      case ValueType::u8:
        return in_.number<std::uint8_t>(what);
      case ValueType::i8:
        return in_.number<std::int8_t>(what);
      case ValueType::u16:
        return in_.number<std::uint16_t>(what);
      case ValueType::i16:
        return in_.number<std::int16_t>(what);
      case ValueType::u32:
        return in_.number<std::uint32_t>(what);
      case ValueType::i32:
        return in_.number<std::int32_t>(what);
      case ValueType::i64:
        return in_.number<std::int64_t>(what);
      case ValueType::boolean:
        return read_bool(key) ? 1 : 0;
      case ValueType::u64: {
        const auto value = in_.number<std::uint64_t>(what);
        if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
          in_.fail("metadata key " + quote(key) + ": " + std::to_string(value) +
                   " is beyond 2^63 - 1");
        }
        return static_cast<std::int64_t>(value);
      }
      case ValueType::f32:
      case ValueType::f64:
      case ValueType::string:
      case ValueType::array:
        break;
    }
    in_.fail("metadata key " + quote(key) + ": not an integer");
    return 0;
  }

  bool read_bool(const std::string& key) {
    const auto value = in_.number<std::uint8_t>("a metadata value");
    if (value > 1) {
      in_.fail("metadata key " + quote(key) + ": boolean " + std::to_string(value) +
               "; 0 and 1 are allowed");
    }
    return value != 0;
  }

  GgufValue read_value(ValueType type, const std::string& key) {
    if (type == ValueType::boolean) {
      return read_bool(key);
    }
    if (type == ValueType::string) {
      return in_.text("a metadata string", gguf_metadata_limit);
    }
    if (type == ValueType::f32 || type == ValueType::f64) {
      return read_float(type);
    }
    return read_integer(type, key);
  }

  double read_float(ValueType type) {
    return type == ValueType::f64 ? in_.number<double>("a metadata value")
                                  : static_cast<double>(in_.number<float>("a metadata value"));
  }

  GgufValue read_array(const std::string& key) {
    const auto type = in_.number<std::uint32_t>("an array's type");
    const auto count = in_.number<std::uint64_t>("an array's length");
    if (!in_.fault().ok()) {
      return false;
    }
    if (type >= value_types || static_cast<ValueType>(type) == ValueType::array) {
      in_.fail("metadata key " + quote(key) + ": array of " +
               (type < value_types ? "arrays" : "unknown type " + std::to_string(type)) +
               "; arrays of numbers and strings are read");
      return false;
    }
    if (count > in_.left() / least_value_bytes[type]) {
      in_.fail("metadata key " + quote(key) + ": array states " + std::to_string(count) +
               " entries; " + std::to_string(in_.left()) + " bytes are left");
      return false;
    }
    return array_of(static_cast<ValueType>(type), count, key);
  }

  GgufValue array_of(ValueType type, std::uint64_t count, const std::string& key) {
    if (type == ValueType::string) {
      std::vector<std::string> values;
      for (std::uint64_t i = 0; i < count && in_.fault().ok(); ++i) {
        values.push_back(in_.text("a metadata string", gguf_metadata_limit));
      }
      return values;
    }
    if (type == ValueType::f32 || type == ValueType::f64) {
      std::vector<double> values;
      for (std::uint64_t i = 0; i < count && in_.fault().ok(); ++i) {
        values.push_back(read_float(type));
      }
      return values;
    }
    std::vector<std::int64_t> values;
    for (std::uint64_t i = 0; i < count && in_.fault().ok(); ++i) {
      values.push_back(read_integer(type, key));
    }
    return values;
  }

  Status check_metadata() {
    const auto* const architecture = result_.find<std::string>("general.architecture");
    if (architecture == nullptr || architecture->empty()) {
      return fail("metadata key 'general.architecture' is missing or no string");
    }
    result_.architecture = *architecture;
    if (!result_.has("general.alignment")) {
      return {};
    }
    const auto* const alignment = result_.find<std::int64_t>("general.alignment");
    if (alignment == nullptr || *alignment < 1 || *alignment > largest_alignment ||
        (*alignment & (*alignment - 1)) != 0) {
      return fail("general.alignment is " +
                  (alignment == nullptr ? "no integer" : std::to_string(*alignment)) +
                  "; powers of two up to " + std::to_string(largest_alignment) + " are allowed");
    }
    alignment_ = *alignment;
    return {};
  }

  void read_tensor() {
    TensorInfo tensor;
    tensor.name = in_.text("a tensor name", longest_tensor_name);
    const auto dimensions = in_.number<std::uint32_t>("a tensor's dimensions");
    if (!in_.fault().ok()) {
      return;
    }
    const std::string who = "tensor " + quote(tensor.name);
    if (tensor.name.empty() || tensor.name.find('\0') != std::string::npos) {
      return in_.fail(who + ": its name is empty or holds a NUL");
    }
    if (dimensions > most_dimensions) {
      return in_.fail(who + ": has " + std::to_string(dimensions) + " dimensions; at most " +
                      std::to_string(most_dimensions) + " are allowed");
    }
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto size = in_.number<std::uint64_t>("a tensor's dimensions");
      if (size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return in_.fail(who + ": dimension " + std::to_string(size) + " is beyond 2^63 - 1");
      }
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
    }
    const auto id = in_.number<std::uint32_t>("a tensor's type");
    const auto offset = in_.number<std::uint64_t>("a tensor's offset");
    if (in_.fault().ok()) {
      finish_tensor(std::move(tensor), id, offset);
    }
  }

  /// `begin` and `end` are relative to the data until place_tensors.
  void finish_tensor(TensorInfo tensor, std::uint32_t id, std::uint64_t offset) {
    const std::string who = "tensor " + quote(tensor.name);
    const auto type = storage_type_from_gguf(id);
    if (!type) {
      return in_.fail(who + ": type " + std::to_string(id) +
                      " does not exist or was removed from the format");
    }
    tensor.type = *type;
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % block_elements(*type) != 0) {
      return in_.fail(who + ": rows of " + std::to_string(row) + " elements are no whole " +
                      std::to_string(block_elements(*type)) + "-element blocks of " +
                      std::string(to_string(*type)));
    }
    const std::optional<std::int64_t> bytes = stored_bytes(tensor);
    if (!bytes) {
      return in_.fail(who + ": the size of " + shape_text(tensor.shape) + " does not fit 64 bits");
    }
    if (offset % static_cast<std::uint64_t>(alignment_) != 0) {
      return in_.fail(who + ": offset " + std::to_string(offset) +
                      " is no multiple of the alignment " + std::to_string(alignment_));
    }
    if (offset > static_cast<std::uint64_t>(file_.size())) {
      return in_.fail(who + ": offset " + std::to_string(offset) + " is beyond the file's " +
                      std::to_string(file_.size()) + " bytes");
    }
    tensor.begin = static_cast<std::int64_t>(offset);
    if (*bytes > std::numeric_limits<std::int64_t>::max() - tensor.begin - gguf_metadata_limit) {
      return in_.fail(who + ": its end does not fit 64 bits");
    }
    tensor.end = tensor.begin + *bytes;
    result_.tensors.push_back(std::move(tensor));
  }

  Status place_tensors() {
    const std::int64_t data = round_up(in_.position(), alignment_);
    std::vector<const TensorInfo*> by_begin;
    for (TensorInfo& tensor : result_.tensors) {
      tensor.begin += data;
      tensor.end += data;
      if (tensor.end > file_.size()) {
        return fail("tensor " + quote(tensor.name) + " lies at bytes " +
                    std::to_string(tensor.begin) + ".." + std::to_string(tensor.end) +
                    ", beyond the end of the file at " + std::to_string(file_.size()));
      }
      by_begin.push_back(&tensor);
    }
    std::sort(by_begin.begin(), by_begin.end(), [](const TensorInfo* a, const TensorInfo* b) {
      return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
    });
    for (std::size_t i = 1; i < by_begin.size(); ++i) {
      if (by_begin[i]->begin < by_begin[i - 1]->end) {
        return fail("tensor " + quote(by_begin[i]->name) + " overlaps " +
                    quote(by_begin[i - 1]->name));
      }
    }
    std::sort(by_begin.begin(), by_begin.end(), [](const TensorInfo* a, const TensorInfo* b) {
      return a->name < b->name;
    });
    for (std::size_t i = 1; i < by_begin.size(); ++i) {
      if (by_begin[i]->name == by_begin[i - 1]->name) {
        return fail("tensor " + quote(by_begin[i]->name) + " appears twice");
      }
    }
    return {};
  }

  const InputFile& file_;
  Cursor in_;
  std::int64_t alignment_ = default_alignment;
  Gguf result_;
};

}  // namespace

Result<Gguf> read_gguf(const InputFile& file) {
  return Parser(file).parse();
}

}  // namespace parbuckle
