// One value of a JSON file with its path, for reading settings with messages that say where.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "parbuckle/status.h"

namespace parbuckle {

/// A view: the JSON value must outlive it. A key that is null counts as absent.
class JsonPart {
 public:
  JsonPart(const nlohmann::ordered_json& json, std::string path)
      : json_(&json), path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const nlohmann::ordered_json& json() const { return *json_; }

  /// Refuses keys that are not listed.
  [[nodiscard]] Status only(std::initializer_list<std::string_view> known) const;
  [[nodiscard]] Status is_object() const;
  [[nodiscard]] bool has(std::string_view key) const;

  [[nodiscard]] Result<JsonPart> object(std::string_view key) const;
  [[nodiscard]] Result<std::vector<JsonPart>> array(std::string_view key) const;
  [[nodiscard]] Result<std::string> text(std::string_view key) const;
  [[nodiscard]] Result<std::string> text_or(std::string_view key, std::string_view absent) const;
  [[nodiscard]] Result<bool> flag_or(std::string_view key, bool absent) const;
  [[nodiscard]] Result<double> number_or(std::string_view key, double absent) const;
  /// A whole number from 0 to 2^24, more than any published vocabulary has.
  [[nodiscard]] Result<std::int32_t> token_id(std::string_view key) const;

 private:
  [[nodiscard]] const nlohmann::ordered_json* find(std::string_view key) const;
  [[nodiscard]] Status wrong(std::string_view key, std::string_view expected) const;

  const nlohmann::ordered_json* json_;
  std::string path_;
};

}  // namespace parbuckle
