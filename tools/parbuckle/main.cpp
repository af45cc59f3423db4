// parbuckle VERB [options]: picks the verb and turns its Status into an exit code and one line of text.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "parbuckle/status.h"

#include "tools/parbuckle/arguments.h"
#include "tools/parbuckle/verbs.h"

namespace parbuckle::tool {
namespace {

struct Verb {
  std::string_view name;
  std::string_view help;
  Status (*run)(const Arguments&);
};

constexpr std::array<Verb, 8> verbs{{
    {"train", "fine-tune a model within a memory budget", run_train},
    {"plan", "what `train` would do: placement, bytes, time, smallest budget", run_plan},
    {"probe", "measure this machine into a hardware file", run_probe},
    {"eval", "loss and perplexity of a model on held-out data", run_eval},
    {"generate", "continue a prompt", run_generate},
    {"inspect", "what a model folder, .safetensors or .gguf file holds", run_inspect},
    {"tokenize", "ids of a text or of training records", run_tokenize},
    {"devices", "which compute devices are here, and what is missing", run_devices},
}};

constexpr std::string_view version_line = "parbuckle 0.1.0";

void print_usage(std::FILE* to) {
  std::fprintf(to,
               "%s: fine-tunes transformers bigger than the memory at hand\n\nusage: parbuckle "
               "VERB [options]\n\n",
               version_line.data());
  for (const Verb& verb : verbs) {
    std::fprintf(to, "  %-10s %s\n", verb.name.data(), verb.help.data());
  }
  std::fputs("\nparbuckle VERB --help lists the options of a verb.\n", to);
}

/// libgomp reads its wait policy when it is loaded, and busy threads take the cores that I/O needs:
/// set the policy and start once more. Nothing has been done yet.
void restart_with_passive_waiting(char** argv) {
  constexpr const char* variable = "OMP_WAIT_POLICY";
  if (std::getenv(variable) != nullptr) {
    return;
  }
  ::setenv(variable, "passive", 1);
  ::execv("/proc/self/exe", argv);
  // Where /proc is missing the run goes on, only slower.
}

int exit_code(const Status& status) {
  if (status.ok()) {
    return 0;
  }
  std::fprintf(stderr, "error: %s\n", status.message().c_str());
  return status.code() == Code::internal ? 70 : status.code() == Code::invalid_argument ? 2 : 1;
}

int run(int argc, char** argv) {
  const std::vector<std::string> all(argv + 1, argv + argc);
  if (all.empty()) {
    print_usage(stderr);
    return 2;
  }
  if (all[0] == "--help" || all[0] == "-h" || all[0] == "help") {
    print_usage(stdout);
    return 0;
  }
  if (all[0] == "--version" || all[0] == "version") {
    std::printf("%s\n", version_line.data());
    return 0;
  }
  std::vector<std::string> names;
  for (const Verb& verb : verbs) {
    if (verb.name == all[0]) {
      restart_with_passive_waiting(argv);
      return exit_code(verb.run({all.begin() + 1, all.end()}));
    }
    names.emplace_back(verb.name);
  }
  const std::string near = nearest(all[0], names);
  return exit_code(
      invalid("unknown verb '" + all[0] + "'" +
              (near.empty() ? "; parbuckle --help lists them" : "; did you mean '" + near + "'?")));
}

}  // namespace
}  // namespace parbuckle::tool

int main(int argc, char** argv) {
  return parbuckle::tool::run(argc, argv);
}
