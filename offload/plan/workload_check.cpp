#include "offload/plan/workload_check.h"

#include <cstddef>
#include <string>

#include "parbuckle/units.h"

namespace parbuckle {
namespace {

Status fault(const std::string& where, const std::string& what) {
  return invalid("workload: " + where + ": " + what);
}

class Check {
 public:
  explicit Check(const Workload& workload) : w_(workload) {}

  Status run() {
    if (w_.micro_batches < 1 || w_.shapes.empty() || w_.units.empty()) {
      return fault("step", "needs at least one micro-batch, one shape and one unit");
    }
    for (std::size_t s = 0; s < w_.spans.size(); ++s) {
      PARBUCKLE_TRY(span(SpanId(s)));
    }
    for (const Block& block : w_.blocks) {
      if (!block.span.valid() || block.span.index() >= w_.spans.size()) {
        return fault(block.name, "belongs to no span");
      }
    }
    PARBUCKLE_TRY(templates("begin", w_.begin, false));
    PARBUCKLE_TRY(templates("turn", w_.turn, false));
    PARBUCKLE_TRY(templates("finish", w_.finish, false));
    for (const Unit& unit : w_.units) {
      PARBUCKLE_TRY(check_unit(unit));
    }
    for (const Update& update : w_.updates) {
      PARBUCKLE_TRY(templates("update", {update.task}, false));
      if (!update.span.valid() || update.span.index() >= w_.spans.size()) {
        return fault("update", "of a span that does not exist");
      }
    }
    return Status();
  }

 private:
  Status span(SpanId id) const {
    const Span& span = w_.spans[id.index()];
    if (span.blocks.empty()) {
      return fault(span.name, "has no blocks");
    }
    std::int64_t end = 0;
    for (std::size_t b = 0; b < span.blocks.size(); ++b) {
      if (!span.blocks[b].valid() || span.blocks[b].index() >= w_.blocks.size()) {
        return fault(span.name, "names a block that does not exist");
      }
      const Block& block = w_.blocks[span.blocks[b].index()];
      const std::int64_t bytes = block_bytes(block, w_.shapes.back());
      if (block.span != id || block.per_micro_batch != span.per_micro_batch || bytes <= 0) {
        return fault(block.name, "does not agree with its span, or is empty");
      }
      if (block.span_offset != end) {
        return fault(block.name, "does not begin where the block before it ends");
      }
      end += bytes;
      if (b + 1 < span.blocks.size() && bytes % page_bytes != 0) {
        return fault(block.name, "is not the last of its span and no multiple of a page");
      }
    }
    return end == span.bytes ? Status() : fault(span.name, "is not as long as its blocks");
  }

  Status check_unit(const Unit& unit) const {
    if (unit.alternatives.empty()) {
      return fault(unit.name, "has no alternative");
    }
    for (const Alternative& alternative : unit.alternatives) {
      PARBUCKLE_TRY(templates(unit.name, alternative.forward, true));
      PARBUCKLE_TRY(templates(unit.name, alternative.backward, true));
    }
    PARBUCKLE_TRY(templates(unit.name, unit.gradient_begin, false));
    return templates(unit.name, unit.gradient_end, false);
  }

  Status templates(const std::string& where,
                   const std::vector<TaskTemplate>& list,
                   bool per_micro_batch) const {
    for (const TaskTemplate& t : list) {
      if (!t.family.valid() || t.family.index() >= w_.families.size()) {
        return fault(where, "a task of a family that does not exist");
      }
      for (const Use& use : t.uses) {
        PARBUCKLE_TRY(check_use(where, use, per_micro_batch));
      }
    }
    return Status();
  }

  Status check_use(const std::string& where, const Use& use, bool per_micro_batch) const {
    if (!use.span.valid() || use.span.index() >= w_.spans.size()) {
      return fault(where, "uses a span that does not exist");
    }
    const Span& span = w_.spans[use.span.index()];
    if (use.block >= static_cast<std::int32_t>(span.blocks.size())) {
      return fault(where, "uses a block that " + span.name + " does not have");
    }
    if (span.per_micro_batch && !per_micro_batch) {
      return fault(where, "a task of the whole step uses " + span.name + ", one per micro-batch");
    }
    return Status();
  }

  const Workload& w_;
};

}  // namespace

Status check_workload(const Workload& workload) {
  return Check(workload).run();
}

}  // namespace parbuckle
