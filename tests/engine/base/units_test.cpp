#include "parbuckle/units.h"

#include <gtest/gtest.h>

namespace parbuckle {
namespace {

TEST(Units, ReadsSizesAsPeopleWriteThem) {
  EXPECT_EQ(parse_size("700MiB").value(), 700 * mib);
  EXPECT_EQ(parse_size("1.5 GiB").value(), 1536 * mib);
  EXPECT_EQ(parse_size("2GB").value(), 2'000'000'000);
  EXPECT_EQ(parse_size("4096").value(), 4096);
  EXPECT_EQ(parse_size("1g").value(), gib);
}

TEST(Units, RefusesWhatIsNoSize) {
  for (const char* text : {"", "-1MiB", "12parsecs", "MiB", "nan", "1e300GiB", "1 2"}) {
    EXPECT_FALSE(parse_size(text).ok()) << text;
  }
}

TEST(Units, PrintsThreeDigits) {
  EXPECT_EQ(format_size(480 * mib), "480 MiB");
  EXPECT_EQ(format_size(1536 * mib), "1.50 GiB");
  EXPECT_EQ(format_size(640), "640 B");
  EXPECT_EQ(format_seconds(0.0456), "45.6 ms");
  EXPECT_EQ(format_seconds(125), "2 min 05 s");
  EXPECT_EQ(format_seconds(11520), "3 h 12 min");
}

}  // namespace
}  // namespace parbuckle
