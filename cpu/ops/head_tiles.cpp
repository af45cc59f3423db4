#include "cpu/ops/head_tiles.h"

#include <array>
#include <string>

namespace parbuckle::cpu {
namespace {

std::int64_t largest_height(std::int64_t rows) {
  return rows >= head_tile ? head_tile : small_head_tile;
}

MatmulKey logits_key(std::int64_t height, std::int64_t vocabulary, std::int64_t width) {
  return {.m = height, .n = vocabulary, .k = width, .b_transposed = true};
}
MatmulKey dh_key(std::int64_t height, std::int64_t vocabulary, std::int64_t width) {
  return {.m = height, .n = width, .k = vocabulary, .accumulate = true};
}
MatmulKey gradient_key(std::int64_t height, std::int64_t vocabulary, std::int64_t width) {
  return {.m = vocabulary, .n = width, .k = height, .a_transposed = true, .accumulate = true};
}

}  // namespace

std::int64_t next_tile_height(std::int64_t rows, std::int64_t left) {
  return rows >= head_tile && left > head_tile / 2 ? head_tile : small_head_tile;
}

HeadWorkspace carve_head(Pieces& pieces, const HeadSizes& sizes, std::int64_t matmul_bytes) {
  const std::int64_t height = largest_height(sizes.rows);
  return {.targeted = pieces.take<std::int32_t>(sizes.rows),
          .losses = pieces.take<double>(sizes.rows),
          .h = pieces.take<float>(height * sizes.width),
          .dh = pieces.take<float>(height * sizes.width),
          .logits = pieces.take<float>(height * sizes.vocabulary),
          .matmul = pieces.take<std::byte>(matmul_bytes)};
}

Status prepare_head_part(Context& context,
                         const HeadSizes& sizes,
                         std::int64_t vocabulary,
                         bool backward,
                         std::int64_t& bytes) {
  for (const std::int64_t height : {small_head_tile, head_tile}) {
    if (height > largest_height(sizes.rows)) {
      continue;
    }
    const std::array keys{logits_key(height, vocabulary, sizes.width),
                          dh_key(height, vocabulary, sizes.width),
                          gradient_key(height, vocabulary, sizes.width)};
    for (const MatmulKey& key : std::span(keys).first(backward ? keys.size() : 1)) {
      PARBUCKLE_ASSIGN(const std::int64_t needed, context.matmuls().prepare(key));
      bytes = std::max(bytes, needed);
    }
  }
  return {};
}

Result<std::int64_t> collect_targets(std::span<const std::int32_t> targets,
                                     std::int64_t vocabulary,
                                     std::int32_t* to) {
  std::int64_t count = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] >= vocabulary) {
      return invalid("target " + std::to_string(targets[row]) + " of row " + std::to_string(row) +
                     ": the vocabulary has " + std::to_string(vocabulary) + " entries");
    }
    if (targets[row] >= 0) {
      to[count++] = static_cast<std::int32_t>(row);
    }
  }
  return count;
}

void gather(const Context& context,
            const HeadTile& tile,
            std::int64_t width,
            const float* from,
            float* to) {
  parallel_for(context.team(), tile.height, [&](std::int64_t i, int /*thread*/) {
    const auto index = static_cast<std::size_t>(i);
    if (index < tile.rows.size()) {
      std::copy_n(from + tile.rows[index] * width, width, to + i * width);
    } else {
      std::fill_n(to + i * width, width, 0.0F);
    }
  });
}

void scatter(const Context& context,
             const HeadTile& tile,
             std::int64_t width,
             const float* from,
             float* to) {
  parallel_for(context.team(), tile.count(), [&](std::int64_t i, int /*thread*/) {
    const std::int64_t row = tile.rows[static_cast<std::size_t>(i)];
    std::copy_n(from + i * width, width, to + row * width);
  });
}

Status part_logits(Context& context,
                   std::int64_t width,
                   const HeadWorkspace& w,
                   const HeadPart& part,
                   std::int64_t height) {
  return context.matmuls().run(
      logits_key(height, part.size, width),
      {.a = w.h, .b = part.table, .c = part.logits, .workspace = w.matmul});
}

Status part_gradients(Context& context,
                      std::int64_t width,
                      const HeadWorkspace& w,
                      const HeadPart& part,
                      std::int64_t height) {
  PARBUCKLE_TRY(
      context.matmuls().run(dh_key(height, part.size, width),
                            {.a = part.logits, .b = part.table, .c = w.dh, .workspace = w.matmul}));
  return context.matmuls().run(
      gradient_key(height, part.size, width),
      {.a = part.logits, .b = w.h, .c = part.gradient, .workspace = w.matmul});
}

void write_loss(const double* losses, std::int64_t count, double* to) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    sum += losses[i];
  }
  to[0] = sum;
  to[1] = static_cast<double>(count);
}

}  // namespace parbuckle::cpu
