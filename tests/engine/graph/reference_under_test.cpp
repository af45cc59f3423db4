#include "tests/support/reference_table.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {

OpTable table_under_test() {
  return reference_table();
}

}  // namespace parbuckle
