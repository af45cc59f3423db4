// Any text as config.json and generation_config.json; an accepted config must be usable.
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/check.h"
#include "engine/checkpoint/config_json.h"
#include "engine/checkpoint/saved_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parbuckle;
  const std::string text(data, data + size);
  static_cast<void>(parse_generation_config(text, "fuzz").ok());
  const Result<ConfigFile> config = parse_config(text, "fuzz");
  if (config.ok()) {
    PARBUCKLE_CHECK(config->model.heads % config->model.kv_heads == 0 && config->model.layers > 0,
                    "an accepted config is consistent");
    const Result<ConfigFile> again =
        parse_config(config_with_type(text, StorageType::bf16), "fuzz");
    PARBUCKLE_CHECK(again.ok() && again->dtype == "bfloat16" && again->model == config->model,
                    "a rewritten config means the same model");
  }
  return 0;
}
