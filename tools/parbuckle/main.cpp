#include <cstdio>

int main() {
  std::puts("parbuckle 0.1.0");
  return 0;
}
