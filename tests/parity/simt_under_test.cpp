#include "tests/support/device_table.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {

OpTable table_under_test() {
  static DeviceTable device(7);
  return device.table();
}

// The harness runs every thread: the families' first models, not all of them.
std::vector<std::string> models_under_test() {
  return {"llama_gqa_untied", "gpt2_tied", "qwen3", "llama_bias", "mistral_window"};
}

}  // namespace parbuckle
