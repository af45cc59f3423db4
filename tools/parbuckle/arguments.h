// The command line of one verb, built from the visit function of its configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "parbuckle/config.h"
#include "parbuckle/status.h"

namespace parbuckle::tool {

/// One option as the normaliser sees it.
struct KnownOption {
  std::vector<std::string> names;  // without the leading hyphens, first the documented one
  bool boolean = false;
};

/// Brings arguments into one form: `--some_name value` and `--alias=value` become `--some-name=value`, a lone boolean
/// becomes `--name=true`. Unknown options are refused with the nearest known one.
Result<std::vector<std::string>> normalise(const std::vector<std::string>& arguments,
                                           const std::vector<KnownOption>& known,
                                           const std::string& verb);

/// Edit distance (insertions, deletions, substitutions), for suggestions.
std::int64_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Options of a configuration on a CLI11 application, and their list for normalise().
class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}

  template <class T>
  void operator()(const OptionInfo& info, T& member) {
    add_known(info, std::is_same_v<T, bool>);
    app_.add_option("--" + std::string(info.name), member, info.help)->capture_default_str();
  }
  void add_known(const OptionInfo& info, bool boolean);
  [[nodiscard]] const std::vector<KnownOption>& known() const { return known_; }

 private:
  CLI::App& app_;
  std::vector<KnownOption> known_;
};

/// Parses `arguments` (after the verb) into `config`. Help text goes to standard output: then `*help` is true.
Status parse(CLI::App& app,
             const Options& options,
             const std::vector<std::string>& arguments,
             bool* help);

/// An option that one verb has besides those of its configuration.
struct ExtraOption {
  OptionInfo info;
  std::string* value;
};

/// The configuration of a verb; nullopt where help was asked for and has been printed.
template <class Config>
Result<std::optional<Config>> read_config(const std::string& verb,
                                          const std::string& about,
                                          const std::vector<std::string>& arguments,
                                          const std::vector<ExtraOption>& extra = {}) {
  CLI::App app(about, verb);
  Config config;
  Options options(app);
  Config::visit(config, options);
  for (const ExtraOption& option : extra) {
    options(option.info, *option.value);
  }
  bool help = false;
  PARBUCKLE_TRY(parse(app, options, arguments, &help));
  return help ? std::nullopt : std::optional(std::move(config));
}

}  // namespace parbuckle::tool
