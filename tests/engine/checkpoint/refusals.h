// Shared by the tests of this room: a malformed file must be refused, and the message must name the file and the fault.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "parbuckle/status.h"

namespace parbuckle {

struct Refusal {
  const char* file;
  const char* key_word;  // stands in the message
};

inline void expect_refusal(const Status& status, const std::string& file, const char* key_word) {
  ASSERT_FALSE(status.ok()) << file << " was accepted";
  EXPECT_NE(status.message().find(file), std::string::npos)
      << "no file name in: " << status.message();
  EXPECT_NE(status.message().find(key_word), std::string::npos)
      << file << ": '" << key_word << "' is not in: " << status.message();
  EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
}

}  // namespace parbuckle
