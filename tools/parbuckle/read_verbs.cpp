// The verbs that change nothing: eval, generate, inspect, tokenize, probe.
#include <cstdio>
#include <fstream>

#include "parbuckle/trainer.h"
#include "parbuckle/units.h"

#include "tools/parbuckle/arguments.h"
#include "tools/parbuckle/progress.h"
#include "tools/parbuckle/verbs.h"

namespace parbuckle::tool {

Status run_eval(const Arguments& arguments) {
  PARBUCKLE_ASSIGN(const auto config,
                   read_config<EvalConfig>(
                       "eval", "Loss and perplexity of a model on held-out data.", arguments));
  if (!config) {
    return {};
  }
  Progress progress(1);
  PARBUCKLE_ASSIGN(const EvalRecord record, evaluate(*config, progress));
  std::printf("eval_loss %.6f  perplexity %.4f  targets %lld  %s\n",
              record.eval_loss,
              record.perplexity,
              static_cast<long long>(record.targets),
              format_seconds(record.eval_runtime).c_str());
  return {};
}

Status run_generate(const Arguments& arguments) {
  PARBUCKLE_ASSIGN(const auto config,
                   read_config<GenerateConfig>("generate", "Continues a prompt.", arguments));
  if (!config) {
    return {};
  }
  Progress progress(1);
  const auto on_text = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  PARBUCKLE_ASSIGN(const Generation generation, generate(*config, on_text, progress));
  std::fputc('\n', stdout);
  std::fprintf(stderr,
               "%zu tokens in %s\n",
               generation.new_ids.size(),
               format_seconds(generation.seconds).c_str());
  return {};
}

Status run_inspect(const Arguments& arguments) {
  if (arguments.size() != 1 || arguments[0].rfind("--", 0) == 0) {
    std::puts("usage: parbuckle inspect PATH    (a model folder, a .safetensors or a .gguf file)");
    return arguments.size() == 1 && arguments[0] == "--help"
               ? Status()
               : invalid("parbuckle inspect: expected one path");
  }
  PARBUCKLE_ASSIGN(const std::string text, inspect(arguments[0]));
  std::fputs(text.c_str(), stdout);
  return {};
}

Status run_tokenize(const Arguments& arguments) {
  PARBUCKLE_ASSIGN(
      const auto config,
      read_config<TokenizeConfig>("tokenize", "Ids of a text, or of training records.", arguments));
  if (!config) {
    return {};
  }
  PARBUCKLE_ASSIGN(const std::string text, tokenize(*config));
  std::fputs(text.c_str(), stdout);
  return {};
}

Status run_probe(const Arguments& arguments) {
  std::string output;
  PARBUCKLE_ASSIGN(
      const auto config,
      read_config<MemoryConfig>(
          "probe",
          "Measures this machine into a hardware file.",
          arguments,
          {{OptionInfo{"output", "o", "file to write (default: standard output)"}, &output}}));
  if (!config) {
    return {};
  }
  Progress progress(1);
  PARBUCKLE_ASSIGN(const std::string text, probe(*config, progress));
  if (output.empty()) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::ofstream file(output);
  file << text << '\n';
  return file.flush() ? Status() : io_error("cannot write " + output);
}

}  // namespace parbuckle::tool
