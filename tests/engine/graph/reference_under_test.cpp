#include "tests/support/reference_table.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {

OpTable table_under_test() {
  return reference_table();
}

/// One of each kind of graph: these loops are slow.
std::vector<std::string> models_under_test() {
  return {"llama_gqa_untied", "gpt2_tied", "qwen3", "llama_bias", "mistral_window"};
}

}  // namespace parbuckle
