// An observer that keeps the records of all steps, and what the kernel says was moved during each.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "parbuckle/trainer.h"

#include "offload/probe/process_memory.h"

namespace parbuckle {

class RecordedSteps final : public Observer {
 public:
  void on_step(const StepRecord& record, std::int64_t /*total_steps*/) override {
    records_.push_back(record);
    io_.push_back(process_io().value());
  }

  [[nodiscard]] const std::vector<StepRecord>& records() const { return records_; }
  /// Between the ends of steps `index` - 1 and `index`, from 0. REQUIRES: index > 0.
  [[nodiscard]] ProcessIo kernel_io(std::size_t index) const {
    return {.read_bytes = io_[index].read_bytes - io_[index - 1].read_bytes,
            .written_bytes = io_[index].written_bytes - io_[index - 1].written_bytes};
  }

 private:
  std::vector<StepRecord> records_;
  std::vector<ProcessIo> io_;
};

inline void expect_bytes_as_planned(const StepRecord& record, const std::string& run) {
  for (const RoleTraffic& role : record.traffic) {
    EXPECT_EQ(role.read, role.planned_read)
        << run << ", step " << record.step << ", " << role.role << " read";
    EXPECT_EQ(role.written, role.planned_written)
        << run << ", step " << record.step << ", " << role.role << " written";
  }
}

}  // namespace parbuckle
