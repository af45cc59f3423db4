#include "tests/support/simt/simt_table.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {

OpTable table_under_test() {
  static SimtTable simt(7);
  return simt.table();
}

}  // namespace parbuckle
