// Typed access to the keys of a config.json. null means absent for every key. The first fault is kept, with file, key,
// found and allowed value; later reads then return their defaults, so that a caller checks once at the end.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/strict_json.h"

namespace parbuckle {

class ConfigKeys {
 public:
  /// `object` must outlive this; `file` and, for an object inside it, `parent` ("rope_scaling.") are for messages.
  ConfigKeys(const Json& object, std::string file, std::string parent = "")
      : object_(object), file_(std::move(file)), parent_(std::move(parent)) {}

  [[nodiscard]] const Status& fault() const { return fault_; }
  void fail(Status status) {
    if (fault_.ok()) {
      fault_ = std::move(status);
    }
  }
  /// Keeps "file: key must be `allowed`, found `value`".
  void refuse(std::string_view key, const std::string& allowed);

  /// The value, or null where the key is absent or null. Marks the key as known.
  const Json* find(std::string_view key);
  [[nodiscard]] bool has(std::string_view key) { return find(key) != nullptr; }

  /// Whether the key is there at all, null included: a few keys have a default that null switches off.
  [[nodiscard]] bool mentions(std::string_view key) const {
    return object_.contains(std::string(key));
  }

  /// A whole number from 1 to `most`, required.
  std::int64_t size(std::string_view key, std::int64_t most);
  std::optional<std::int64_t> optional_size(std::string_view key, std::int64_t most);
  std::optional<std::int64_t> integer(std::string_view key);
  bool boolean(std::string_view key, bool otherwise);
  std::optional<double> number(std::string_view key);
  /// Finite and > 0.
  std::optional<double> positive(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// A token id or a list of them.
  std::vector<std::int32_t> token_ids(std::string_view key);

  /// Keys of the object that nothing has asked for.
  [[nodiscard]] std::vector<std::string> unknown() const;
  void know(std::string_view key) { known_.emplace(key); }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  const Json& object_;
  std::string file_;
  std::string parent_;
  std::set<std::string, std::less<>> known_;
  Status fault_;
};

}  // namespace parbuckle
