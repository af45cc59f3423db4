#include "tools/parbuckle/arguments.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <sstream>
#include <utility>

namespace parbuckle::tool {
namespace {

const KnownOption* find(const std::vector<KnownOption>& known, const std::string& name) {
  const auto found = std::find_if(known.begin(), known.end(), [&](const KnownOption& option) {
    return std::find(option.names.begin(), option.names.end(), name) != option.names.end();
  });
  return found == known.end() ? nullptr : &*found;
}

bool is_truth_value(const std::string& text) {
  constexpr std::array<std::string_view, 8> words{
      "true", "false", "yes", "no", "on", "off", "1", "0"};
  return std::find(words.begin(), words.end(), text) != words.end();
}

Status unknown_option(const std::string& name,
                      const std::vector<KnownOption>& known,
                      const std::string& verb) {
  std::vector<std::string> names;
  for (const KnownOption& option : known) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  const std::string near = nearest(name, names);
  return invalid(
      "parbuckle " + verb + ": unknown option --" + name +
      (near.empty() ? "; see parbuckle " + verb + " --help" : "; did you mean --" + near + "?"));
}

}  // namespace

std::int64_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = std::exchange(row[0], static_cast<std::int64_t>(i) + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::int64_t best_distance = static_cast<std::int64_t>(word.size()) / 3 + 2;
  for (const std::string& candidate : candidates) {
    const std::int64_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

Result<std::vector<std::string>> normalise(const std::vector<std::string>& arguments,
                                           const std::vector<KnownOption>& known,
                                           const std::string& verb) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.rfind("--", 0) != 0 || argument == "--help") {
      out.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '_', '-');
    const KnownOption* const option = find(known, name);
    if (option == nullptr) {
      return unknown_option(name, known, verb);
    }
    std::string value;
    if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (option->boolean) {
      value =
          i + 1 < arguments.size() && is_truth_value(arguments[i + 1]) ? arguments[++i] : "true";
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return invalid("parbuckle " + verb + ": --" + name + " needs a value");
    }
    out.push_back("--" + option->names.front() + "=" + value);
  }
  return out;
}

void Options::add_known(const OptionInfo& info, bool boolean) {
  KnownOption option{.names = {info.name}, .boolean = boolean};
  std::istringstream aliases(info.aliases);
  for (std::string alias; aliases >> alias;) {
    option.names.push_back(alias);
  }
  known_.push_back(std::move(option));
}

Status parse(CLI::App& app,
             const Options& options,
             const std::vector<std::string>& arguments,
             bool* help) {
  *help = false;
  PARBUCKLE_ASSIGN(auto normal, normalise(arguments, options.known(), app.get_name()));
  std::reverse(normal.begin(), normal.end());  // CLI11 takes a stack
  try {
    app.parse(normal);
  } catch (const CLI::CallForHelp&) {
    *help = true;
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::Error& error) {
    return invalid("parbuckle " + app.get_name() + ": " + error.what());
  }
  return {};
}

}  // namespace parbuckle::tool
