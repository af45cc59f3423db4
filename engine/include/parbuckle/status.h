// Errors as values. A Status says what went wrong in one line that a user can act on; a Result<T>
// is a value or such a Status. Exceptions are not part of any interface.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace parbuckle {

enum class Code {
  ok,
  invalid_argument,    // a flag, a file or a number that the user can change
  not_found,           // a file, a tensor or a key is missing
  unsupported,         // understood, and not implemented
  resource_exhausted,  // a budget, a disk or a limit is too small
  io_error,            // the operating system or a drive said no
  data_corrupt,        // bytes are not what was written
  internal             // our own bug
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] bool ok() const { return code_ == Code::ok; }
  [[nodiscard]] Code code() const { return code_; }
  /// One line: file or flag, place, found value, allowed value.
  [[nodiscard]] const std::string& message() const { return message_; }

  friend bool operator==(const Status&, const Status&) = default;

 private:
  Code code_ = Code::ok;
  std::string message_;
};

/// The word of a code, for logs and JSON ("invalid_argument").
const char* to_string(Code code);

Status invalid(std::string message);
Status unsupported(std::string message);
Status exhausted(std::string message);
Status io_error(std::string message);
Status internal_error(std::string message);

template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit on purpose: `return value;` and `return invalid("...");` are how functions end.
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}         // NOLINT
  Result(Status status) : held_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  [[nodiscard]] bool ok() const { return held_.index() == 0; }
  [[nodiscard]] Status status() const { return ok() ? Status() : *std::get_if<1>(&held_); }
  /// REQUIRES: ok().
  [[nodiscard]] T& value() & { return *std::get_if<0>(&held_); }
  [[nodiscard]] const T& value() const& { return *std::get_if<0>(&held_); }
  [[nodiscard]] T&& value() && { return std::move(*std::get_if<0>(&held_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> held_;
};

}  // namespace parbuckle

// Return from the calling function with the Status of `expr` if it failed.
#define PARBUCKLE_TRY(expr)                                            \
  do {                                                                 \
    if (::parbuckle::Status try_status_ = (expr); !try_status_.ok()) { \
      return try_status_;                                              \
    }                                                                  \
  } while (false)

#define PARBUCKLE_CONCAT_INNER(a, b) a##b
#define PARBUCKLE_CONCAT(a, b) PARBUCKLE_CONCAT_INNER(a, b)
// `PARBUCKLE_ASSIGN(auto x, f());` declares x from a Result, or returns its Status.
#define PARBUCKLE_ASSIGN(declaration, expr)              \
  auto PARBUCKLE_CONCAT(result_, __LINE__) = (expr);     \
  if (!PARBUCKLE_CONCAT(result_, __LINE__).ok()) {       \
    return PARBUCKLE_CONCAT(result_, __LINE__).status(); \
  }                                                      \
  declaration = std::move(PARBUCKLE_CONCAT(result_, __LINE__)).value()
