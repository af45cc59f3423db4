// CHECK is for our own bugs: it stays in release builds and stops the process with file and line.
// Anything a user, a file or a drive can cause is a Status instead.
#pragma once

#include <cstdio>
#include <cstdlib>

#define PARBUCKLE_CHECK(condition, what)                            \
  do {                                                              \
    if (!(condition)) [[unlikely]] {                                \
      std::fprintf(stderr,                                          \
                   "parbuckle: internal error at %s:%d: %s (%s)\n", \
                   __FILE__,                                        \
                   __LINE__,                                        \
                   what,                                            \
                   #condition);                                     \
      std::abort();                                                 \
    }                                                               \
  } while (false)
