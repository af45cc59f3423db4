#include "engine/checkpoint/strict_json.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/checkpoint/quote.h"

namespace parbuckle {
namespace {

constexpr std::size_t deepest = 64;

/// Builds the value from parser events, so that a fault stops the parser before anything grows.
class Builder {
 public:
  explicit Builder(const std::string& name) : name_(name) {}

  bool null() { return add(Json(nullptr)); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(std::int64_t value) { return add(Json(value)); }
  bool number_unsigned(std::uint64_t value) { return add(Json(value)); }
  bool number_float(double value, const std::string& /*text*/) { return add(Json(value)); }
  bool string(std::string& value) { return add(Json(std::move(value))); }
  bool binary(nlohmann::json::binary_t& /*value*/) { return false; }
  bool start_object(std::size_t /*size*/) { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    if (open_.back()->contains(name)) {
      fault_ = invalid(name_ + ": key " + quote(name) + " appears twice");
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const nlohmann::json::exception& fault) {
    fault_ = invalid(name_ + ": is not valid JSON: " + json_fault(fault));
    return false;
  }

  Result<Json> take() {
    if (!fault_.ok()) {
      return fault_;
    }
    return std::move(root_);
  }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& into = *open_.back();
    if (into.is_object()) {
      return &(into[key_] = std::move(value));
    }
    into.push_back(std::move(value));
    return &into.back();
  }
  bool add(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (open_.size() == deepest) {
      fault_ =
          invalid(name_ + ": JSON is nested deeper than " + std::to_string(deepest) + " levels");
      return false;
    }
    open_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  Json root_;
  std::vector<Json*>
      open_;  // a container does not move while it is open: only its last child grows
  std::string key_;
  Status fault_;
};

}  // namespace

std::string json_fault(const nlohmann::json::exception& fault) {
  const std::string text = fault.what();
  const std::size_t prefix = text.find("] ");
  return prefix == std::string::npos ? text : text.substr(prefix + 2);
}

std::string shown(const Json& value) {
  constexpr std::size_t longest = 60;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > longest) {
    text = text.substr(0, longest - 3) + "...";
  }
  return text;
}

Result<Json> parse_strict_json(std::string_view text, const std::string& name) {
  Builder builder(name);
  static_cast<void>(nlohmann::json::sax_parse(text.begin(), text.end(), &builder));
  return builder.take();
}

Result<Json> parse_json_object(std::string_view text, const std::string& name) {
  PARBUCKLE_ASSIGN(Json value, parse_strict_json(text, name));
  if (!value.is_object()) {
    return invalid(name + ": must hold a JSON object, found " + shown(value));
  }
  return value;
}

}  // namespace parbuckle
