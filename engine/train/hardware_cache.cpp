#include "engine/train/hardware_cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <xxhash.h>

#include "parbuckle/units.h"

#include "engine/base/json.h"
#include "engine/train/calibrate.h"
#include "offload/probe/drive_rates.h"
#include "offload/probe/fingerprint.h"
#include "offload/probe/host_memory.h"
#include "offload/storage/drive.h"

namespace parbuckle {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t probe_file_bytes = 512 * mib;

/// $XDG_CACHE_HOME/parbuckle or ~/.cache/parbuckle; empty where neither is known.
fs::path cache_folder() {
  if (const char* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return fs::path(cache) / "parbuckle";
  }
  const char* const home = std::getenv("HOME");
  return home != nullptr ? fs::path(home) / ".cache" / "parbuckle" : fs::path();
}

/// Measurements of one machine and one purpose, in a file named after what they depend on.
class CacheFile {
 public:
  CacheFile(const std::string& purpose, const std::string& depends_on) {
    if (const fs::path folder = cache_folder(); !folder.empty()) {
      path_ =
          folder / (purpose + "-" +
                    std::to_string(XXH3_64bits(depends_on.data(), depends_on.size())) + ".json");
    }
  }
  /// Nothing where it is absent or cannot be read: then it is measured again.
  [[nodiscard]] Hardware read() const {
    std::ifstream in(path_);
    std::stringstream text;
    text << in.rdbuf();
    auto cached = hardware_from_json(text.str());
    return cached.ok() ? std::move(cached).value() : Hardware{};
  }
  /// A cache that cannot be written only costs the next run a measurement.
  void write(const Hardware& hardware) const {
    std::error_code ignored;
    fs::create_directories(path_.parent_path(), ignored);
    const fs::path part = path_.string() + ".part";
    std::ofstream(part) << to_json(hardware);
    fs::rename(part, path_, ignored);
  }

 private:
  fs::path path_;
};

Status add_device(Hardware& hardware, Machine& machine, std::string* note) {
  const CacheFile cache("device", hardware.fingerprint + machine.signature());
  Hardware cached = cache.read();
  if (cached.devices.empty()) {
    PARBUCKLE_ASSIGN(const DeviceRates rates, measure_rates(machine.ops(), machine.device()));
    cached.devices = {{.name = "cpu",
                       .cores = machine.threads(),
                       .instruction_set = machine.signature(),
                       .flops_per_s = rates.flops_per_s,
                       .memory_bytes_per_s = rates.memory_bytes_per_s}};
    cache.write(cached);
    *note += "measured the processor; ";
  }
  hardware.devices = cached.devices;
  return {};
}

/// The host as a second device, on the cores that the first one leaves.
Status add_host(Hardware& hardware, Machine& machine, std::string* note) {
  const CacheFile cache(
      "host", hardware.fingerprint + std::to_string(machine.host_threads()) + " of the host");
  Hardware cached = cache.read();
  if (cached.devices.empty()) {
    PARBUCKLE_ASSIGN(const DeviceRates rates, measure_rates(machine.host_ops(), *machine.host()));
    cached.devices = {{.name = "cpu",
                       .cores = machine.host_threads(),
                       .instruction_set = "",
                       .flops_per_s = rates.flops_per_s,
                       .memory_bytes_per_s = rates.memory_bytes_per_s}};
    cache.write(cached);
    *note += "measured the host; ";
  }
  hardware.devices.push_back(cached.devices.front());
  return {};
}

/// What the host's lane may run beside the device.
Status add_update_times(Hardware& hardware,
                        Machine& machine,
                        const Measured& measured,
                        std::string* note) {
  const CacheFile cache(
      "updates",
      hardware.fingerprint + std::to_string(machine.host_threads()) + measured.workload->signature);
  Hardware cached = cache.read();
  if (cached.program_times.empty()) {
    PARBUCKLE_ASSIGN(cached.program_times,
                     calibrate(Timed::updates,
                               *measured.workload,
                               measured.programs,
                               machine.host_ops(),
                               *machine.host()));
    for (ProgramTime& time : cached.program_times) {
      time.device = 1;
    }
    cache.write(cached);
    *note += "timed the updates on the host; ";
  }
  hardware.program_times.insert(
      hardware.program_times.end(), cached.program_times.begin(), cached.program_times.end());
  return {};
}

Status add_drive(Hardware& hardware, const std::string& path, std::string* note) {
  PARBUCKLE_ASSIGN(const DriveSpace space, drive_space(path));
  hardware.tiers.push_back(
      {Tier::nvme, "nvme:" + path, space.capacity_bytes, space.free_bytes, space.limited_by});
  std::error_code error;
  const CacheFile cache("drive", hardware.fingerprint + fs::canonical(path, error).string());
  Hardware cached = cache.read();
  if (cached.lanes.empty()) {
    PARBUCKLE_TRY(check_drive(path, probe_file_bytes));
    PARBUCKLE_ASSIGN(const DriveRates rates, measure_drive(path, probe_file_bytes));
    constexpr double latency_s = 2e-4;
    constexpr std::int32_t engine = 0;  // one drive serves both directions
    cached.lanes = {{"nvme_read",
                     LaneKind::nvme_read,
                     latency_s,
                     rates.read_bytes_per_s,
                     rates.duplex_read_bytes_per_s,
                     engine},
                    {"nvme_write",
                     LaneKind::nvme_write,
                     latency_s,
                     rates.write_bytes_per_s,
                     rates.duplex_write_bytes_per_s,
                     engine}};
    cache.write(cached);
    *note += "measured the drive; ";
  }
  hardware.lanes = cached.lanes;
  return {};
}

Status add_program_times(Hardware& hardware,
                         Machine& machine,
                         const Measured& measured,
                         std::string* note) {
  const CacheFile cache("programs",
                        hardware.fingerprint + machine.signature() + measured.workload->signature);
  Hardware cached = cache.read();
  if (cached.program_times.empty()) {
    PARBUCKLE_ASSIGN(
        cached.program_times,
        calibrate(
            Timed::all, *measured.workload, measured.programs, machine.ops(), machine.device()));
    cache.write(cached);
    *note += "timed the programs; ";
  }
  hardware.program_times.insert(
      hardware.program_times.end(), cached.program_times.begin(), cached.program_times.end());
  return {};
}

/// An emulated device is what it was told to be: its memory and its link, and the processor's times slowed down.
void emulate(const EmulatedOptions& options, Hardware& hardware) {
  hardware.name = "this machine with an emulated device";
  for (ComputeDevice& device : hardware.devices) {
    device.name = "emulated";
    device.flops_per_s *= options.speed;
    device.memory_bytes_per_s *= options.speed;
  }
  for (ProgramTime& time : hardware.program_times) {
    time.seconds /= options.speed;
  }
  hardware.tiers.push_back(
      {Tier::device, "emulated", options.memory_bytes, options.memory_bytes, "--device"});
  const bool shared = options.duplex == LinkDuplex::shared;
  const auto rate = static_cast<double>(options.link_bytes_per_s);
  constexpr std::int32_t link_engine = 1;
  for (const LaneKind kind : {LaneKind::h2d, LaneKind::d2h}) {
    hardware.lanes.push_back({std::string(to_string(kind)),
                              kind,
                              options.latency_s,
                              rate,
                              shared ? rate / 2 : rate,
                              shared ? link_engine : -1});
  }
}

Result<Hardware> declared(const std::string& path) {
  std::ifstream in(path);
  if (!in) {
    return Status(Code::not_found, "--hardware " + path + ": cannot be read");
  }
  std::stringstream text;
  text << in.rdbuf();
  auto hardware = hardware_from_json(text.str());
  return hardware.ok() ? hardware
                       : Result<Hardware>(invalid(path + ": " + hardware.status().message()));
}

}  // namespace

Result<Hardware> hardware_for(const MemoryConfig& config,
                              Machine& machine,
                              const std::vector<Measured>& workloads,
                              std::string* note) {
  if (!config.hardware.empty()) {
    return declared(config.hardware);
  }
  Hardware hardware{.name = "this machine", .fingerprint = machine_fingerprint()};
  PARBUCKLE_ASSIGN(const TierCapacity host, host_memory());
  hardware.tiers.push_back(host);
  std::string measured;
  PARBUCKLE_TRY(add_device(hardware, machine, &measured));
  if (!config.nvme_path.empty()) {
    PARBUCKLE_TRY(add_drive(hardware, config.nvme_path, &measured));
  }
  for (const Measured& workload : workloads) {
    PARBUCKLE_TRY(add_program_times(hardware, machine, workload, &measured));
  }
  if (machine.emulated()) {
    emulate(*machine.emulated(), hardware);
  }
  if (machine.host() != nullptr) {
    PARBUCKLE_TRY(add_host(hardware, machine, &measured));
    for (const Measured& workload : workloads) {
      if (!workload.workload->updates.empty()) {
        PARBUCKLE_TRY(add_update_times(hardware, machine, workload, &measured));
      }
    }
  }
  if (!measured.empty()) {
    *note += measured + "kept for later runs. ";
  }
  return hardware;
}

}  // namespace parbuckle
