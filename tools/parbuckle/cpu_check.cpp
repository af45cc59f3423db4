// Compiled for the oldest x86-64 and run before everything else: says what is missing instead of dying of an illegal instruction.
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

__attribute__((constructor(101))) void require_baseline() {
  __builtin_cpu_init();
  const char* missing = nullptr;
  if (!__builtin_cpu_supports("avx2")) {
    missing = "error: this processor lacks AVX2, which parbuckle needs\n";
  } else if (!__builtin_cpu_supports("fma")) {
    missing = "error: this processor lacks FMA, which parbuckle needs\n";
  }
  if (missing != nullptr) {
    const auto written = ::write(STDERR_FILENO, missing, std::strlen(missing));
    std::_Exit(written < 0 ? 3 : 2);
  }
}

}  // namespace
