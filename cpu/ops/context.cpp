#include "cpu/ops/context.h"

#include <utility>

#include "cpu/ops/head_tiles.h"

namespace parbuckle::cpu {

Result<std::unique_ptr<Context>> Context::create(const ContextOptions& options) {
  if (options.threads < 1) {
    return invalid("threads: " + std::to_string(options.threads) + ", must be at least 1");
  }
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return unsupported("this processor has no AVX2 with FMA, which the CPU operators need");
  }
  const Team team(options.threads, options.cores);
  team.adopt();
  PARBUCKLE_ASSIGN(auto matmuls, MatmulCache::create(options.matmul_primitives));
  return std::unique_ptr<Context>(new Context(options, std::move(matmuls)));
}

Result<std::unique_ptr<Context>> Context::create(int threads) {
  return create(ContextOptions{.threads = threads});
}

std::string Context::signature() const {
  return matmul_library() + ", " + std::to_string(team_.threads()) + " threads, attention tile " +
         std::to_string(attention_tile) + ", head tile " + std::to_string(head_tile);
}

}  // namespace parbuckle::cpu
