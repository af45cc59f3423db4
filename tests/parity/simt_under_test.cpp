#include "tests/support/device_table.h"
#include "tests/support/table_under_test.h"

namespace parbuckle {

OpTable table_under_test() {
  static DeviceTable device(7);
  return device.table();
}

}  // namespace parbuckle
