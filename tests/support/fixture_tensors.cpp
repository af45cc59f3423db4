#include "tests/support/fixture_tensors.h"

#include <cstring>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

namespace parbuckle {
namespace {

template <class T>
std::vector<double> as_doubles(const std::string& bytes) {
  std::vector<T> typed(bytes.size() / sizeof(T));
  std::memcpy(typed.data(), bytes.data(), typed.size() * sizeof(T));
  std::vector<double> out;
  for (const T value : typed) {
    out.push_back(static_cast<double>(value));
  }
  return out;
}

}  // namespace

std::map<std::string, std::vector<double>> fixture_tensors(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::uint64_t header = 0;
  if (bytes.size() < sizeof(header)) {
    return {};
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto json = nlohmann::json::parse(bytes.substr(8, header));
  std::map<std::string, std::vector<double>> tensors;
  for (const auto& [name, entry] : json.items()) {
    if (!entry.contains("data_offsets")) {
      continue;
    }
    const auto begin = entry["data_offsets"][0].get<std::size_t>();
    const auto end = entry["data_offsets"][1].get<std::size_t>();
    const std::string data = bytes.substr(8 + header + begin, end - begin);
    const std::string dtype = entry["dtype"];
    if (dtype == "F32") {
      tensors[name] = as_doubles<float>(data);
    } else if (dtype == "F64") {
      tensors[name] = as_doubles<double>(data);
    } else if (dtype == "I64") {
      tensors[name] = as_doubles<std::int64_t>(data);
    } else {
      return {};
    }
  }
  return tensors;
}

}  // namespace parbuckle
