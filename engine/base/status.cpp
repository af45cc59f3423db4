#include "parbuckle/status.h"

namespace parbuckle {

const char* to_string(Code code) {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::not_found:
      return "not_found";
    case Code::unsupported:
      return "unsupported";
    case Code::resource_exhausted:
      return "resource_exhausted";
    case Code::io_error:
      return "io_error";
    case Code::data_corrupt:
      return "data_corrupt";
    case Code::internal:
      return "internal";
  }
  return "?";
}

Status invalid(std::string message) {
  return {Code::invalid_argument, std::move(message)};
}

Status unsupported(std::string message) {
  return {Code::unsupported, std::move(message)};
}

Status exhausted(std::string message) {
  return {Code::resource_exhausted, std::move(message)};
}

Status io_error(std::string message) {
  return {Code::io_error, std::move(message)};
}

Status internal_error(std::string message) {
  return {Code::internal, std::move(message)};
}

}  // namespace parbuckle
