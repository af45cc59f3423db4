#include "kernels/ops/head_tiles.h"

#include "kernels/ops/warp.h"

namespace parbuckle::cuda {
namespace {

/// One block. Each thread counts the targets of its own stretch of rows; thread 0 adds the counts up.
struct Collect {
  static constexpr int threads = 256;
  static constexpr std::int64_t shared_bytes = (threads + 1) * sizeof(std::int64_t);
  Global<const std::int32_t> targets;
  Global<std::int64_t> count;
  Global<std::int32_t> list;
  Global<std::int64_t> faults;
  std::int64_t rows;
  std::int64_t vocabulary;

  SIMT_DEVICE void operator()(const Thread& t) const {
    const Shared<std::int64_t> places = t.shared<std::int64_t>(0, threads + 1);
    const std::int64_t stretch = (rows + threads - 1) / threads;
    const std::int64_t begin = t.index() * stretch;
    const std::int64_t end = simt::smaller(begin + stretch, rows);
    std::int64_t mine = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int32_t target = targets[row];
      mine += target >= 0 ? 1 : 0;
      if (target >= vocabulary) {
        report_fault(t, faults, DataFault::target, row_fault(row, target));
      }
    }
    places[t.index() + 1] = mine;
    t.sync();
    if (t.index() == 0) {
      std::int64_t sum = 0;
      SIMT_ROLLED
      for (int i = 0; i < threads; ++i) {
        const std::int64_t next = places[i + 1];
        places[i] = sum;
        sum += next;
      }
      count[0] = sum;
    }
    t.sync();
    std::int64_t place = places[t.index()];
    for (std::int64_t row = begin; row < end; ++row) {
      if (targets[row] >= 0) {
        list[place++] = static_cast<std::int32_t>(row);
      }
    }
  }
};

struct Gather {
  TargetedRows rows;
  Global<const float> from;
  Global<float> to;
  std::int64_t first, width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const std::int64_t row = rows.row(first + i / width);
    float value = 0;
    if (row >= 0) {
      value = from[row * width + i % width];
    }
    to[i] = value;
  }
};

struct Scatter {
  TargetedRows rows;
  Global<const float> from;
  Global<float> to;
  std::int64_t first, width;
  SIMT_DEVICE void operator()(const Thread& /*t*/, std::int64_t i) const {
    const std::int64_t row = rows.row(first + i / width);
    if (row >= 0) {
      to[row * width + i % width] = from[i];
    }
  }
};

/// One warp: each lane adds every 32nd loss, then the lanes are added.
struct SumLosses {
  static constexpr int threads = simt::warp_size;
  Global<const std::int64_t> count;
  Global<const double> losses;
  Global<double> loss;
  SIMT_DEVICE void operator()(const Thread& t) const {
    const std::int64_t n = count[0];
    double sum = 0;
    for (std::int64_t i = t.lane(); i < n; i += simt::warp_size) {
      sum += losses[i];
    }
    sum = warp_sum(t, sum);
    if (t.lane() == 0) {
      loss[0] = sum;
      loss[1] = static_cast<double>(n);
    }
  }
};

}  // namespace

HeadWorkspace carve_head(Pieces& pieces, const HeadSizes& sizes) {
  return {.count = pieces.take<std::int64_t>(1),
          .targeted = pieces.take<std::int32_t>(sizes.rows),
          .losses = pieces.take<double>(sizes.rows),
          .h = pieces.take<float>(sizes.tile() * sizes.width),
          .dh = pieces.take<float>(sizes.tile() * sizes.width),
          .logits = pieces.take<float>(sizes.tile() * sizes.vocabulary)};
}

TargetedRows targeted_rows(const Context& context, const HeadSizes& sizes, const HeadWorkspace& w) {
  return {context.queue.view<const std::int64_t>(w.count, 1),
          context.queue.view<const std::int32_t>(w.targeted, sizes.rows)};
}

Status collect_targets(const Context& context,
                       const HeadSizes& sizes,
                       const Global<const std::int32_t>& targets,
                       std::int64_t vocabulary,
                       const HeadWorkspace& w) {
  return simt::launch(context.queue,
                      {.shared_bytes = Collect::shared_bytes},
                      Collect{.targets = targets,
                              .count = context.queue.view(w.count, 1),
                              .list = context.queue.view(w.targeted, sizes.rows),
                              .faults = view_faults(context),
                              .rows = sizes.rows,
                              .vocabulary = vocabulary});
}

Status gather_rows(const Context& context,
                   const HeadSizes& sizes,
                   const HeadWorkspace& w,
                   std::int64_t first,
                   const Global<const float>& from,
                   float* to) {
  const std::int64_t elements = sizes.tile() * sizes.width;
  return for_each(context,
                  elements,
                  Gather{.rows = targeted_rows(context, sizes, w),
                         .from = from,
                         .to = context.queue.view(to, elements),
                         .first = first,
                         .width = sizes.width});
}

Status scatter_rows(const Context& context,
                    const HeadSizes& sizes,
                    const HeadWorkspace& w,
                    std::int64_t first,
                    const float* from,
                    const Global<float>& to) {
  const std::int64_t elements = sizes.tile() * sizes.width;
  return for_each(context,
                  elements,
                  Scatter{.rows = targeted_rows(context, sizes, w),
                          .from = context.queue.view(from, elements),
                          .to = to,
                          .first = first,
                          .width = sizes.width});
}

Status part_logits(const Context& context,
                   const HeadSizes& sizes,
                   const HeadWorkspace& w,
                   const HeadPart& part) {
  const std::int64_t tile = sizes.tile();
  return gemm_f32(
      context.queue,
      {.m = tile,
       .n = part.size,
       .k = sizes.width,
       .a = {w.h, tile * sizes.width, sizes.width, 1},
       .b = {part.table, part.size * sizes.width, 1, sizes.width},
       .c = {w.logits + part.begin, tile * sizes.vocabulary - part.begin, sizes.vocabulary, 1}});
}

Status part_gradients(const Context& context,
                      const HeadSizes& sizes,
                      const HeadWorkspace& w,
                      const HeadPart& part) {
  const std::int64_t tile = sizes.tile();
  const float* const g = w.logits + part.begin;
  const std::int64_t g_elements = tile * sizes.vocabulary - part.begin;
  PARBUCKLE_TRY(gemm_f32(context.queue,
                         {.m = tile,
                          .n = sizes.width,
                          .k = part.size,
                          .a = {g, g_elements, sizes.vocabulary, 1},
                          .b = {part.table, part.size * sizes.width, sizes.width, 1},
                          .c = {w.dh, tile * sizes.width, sizes.width, 1},
                          .accumulate = true}));
  return gemm_f32(context.queue,
                  {.m = part.size,
                   .n = sizes.width,
                   .k = tile,
                   .a = {g, g_elements, 1, sizes.vocabulary},
                   .b = {w.h, tile * sizes.width, sizes.width, 1},
                   .c = {part.gradient, part.size * sizes.width, sizes.width, 1},
                   .accumulate = true});
}

Status write_loss(const Context& context,
                  const HeadSizes& sizes,
                  const HeadWorkspace& w,
                  const Global<double>& loss) {
  return simt::launch(context.queue,
                      {},
                      SumLosses{.count = context.queue.view<const std::int64_t>(w.count, 1),
                                .losses = context.queue.view<const double>(w.losses, sizes.rows),
                                .loss = loss});
}

}  // namespace parbuckle::cuda
