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
  CLI::App app("Loss and perplexity of a model on held-out data.", "eval");
  EvalConfig config;
  Options options(app);
  EvalConfig::visit(config, options);
  bool help = false;
  PARBUCKLE_TRY(parse(app, options, arguments, &help));
  if (help) {
    return {};
  }
  Progress progress(1);
  PARBUCKLE_ASSIGN(const EvalRecord record, evaluate(config, progress));
  std::printf("eval_loss %.6f  perplexity %.4f  targets %lld  %s\n",
              record.eval_loss,
              record.perplexity,
              static_cast<long long>(record.targets),
              format_seconds(record.eval_runtime).c_str());
  return {};
}

Status run_generate(const Arguments& arguments) {
  CLI::App app("Continues a prompt.", "generate");
  GenerateConfig config;
  Options options(app);
  GenerateConfig::visit(config, options);
  bool help = false;
  PARBUCKLE_TRY(parse(app, options, arguments, &help));
  if (help) {
    return {};
  }
  Progress progress(1);
  const auto on_text = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  PARBUCKLE_ASSIGN(const Generation generation, generate(config, on_text, progress));
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
  CLI::App app("Ids of a text, or of training records.", "tokenize");
  TokenizeConfig config;
  Options options(app);
  TokenizeConfig::visit(config, options);
  bool help = false;
  PARBUCKLE_TRY(parse(app, options, arguments, &help));
  if (help) {
    return {};
  }
  PARBUCKLE_ASSIGN(const std::string text, tokenize(config));
  std::fputs(text.c_str(), stdout);
  return {};
}

Status run_probe(const Arguments& arguments) {
  CLI::App app("Measures this machine into a hardware file.", "probe");
  MemoryConfig config;
  std::string output;
  Options options(app);
  MemoryConfig::visit(config, options);
  options(OptionInfo{"output", "o", "file to write (default: standard output)"}, output);
  bool help = false;
  PARBUCKLE_TRY(parse(app, options, arguments, &help));
  if (help) {
    return {};
  }
  Progress progress(1);
  PARBUCKLE_ASSIGN(const std::string text, probe(config, progress));
  if (output.empty()) {
    std::fputs(text.c_str(), stdout);
    return {};
  }
  std::ofstream file(output);
  file << text << '\n';
  return file.flush() ? Status() : io_error("cannot write " + output);
}

}  // namespace parbuckle::tool
