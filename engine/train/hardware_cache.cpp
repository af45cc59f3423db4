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

constexpr double nominal_rate = 1e9;      // until it is measured
constexpr std::int32_t drive_engine = 0;  // one drive serves both directions

/// The rates of one device, from the cache where it has them; true: they were measured.
Result<bool> rate_device(
    const CacheFile& cache, std::int64_t room, OpTable ops, Device& on, ComputeDevice& device) {
  Hardware cached = cache.read();
  const bool fresh = cached.devices.empty();
  if (fresh) {
    PARBUCKLE_ASSIGN(const DeviceRates rates, measure_rates(room, ops, on));
    cached.devices = {device};
    cached.devices.front().flops_per_s = rates.flops_per_s;
    cached.devices.front().memory_bytes_per_s = rates.memory_bytes_per_s;
    if (room >= rates_room) {
      cache.write(cached);
    }
  }
  device = cached.devices.front();
  return fresh;
}

Status measure_device(Hardware& hardware, Machine& machine, std::int64_t room, std::string* note) {
  const CacheFile cache("device", hardware.fingerprint + machine.signature());
  PARBUCKLE_ASSIGN(
      const bool fresh,
      rate_device(cache, room, machine.ops(), machine.device(), hardware.devices.front()));
  *note += fresh ? "measured the processor; " : "";
  return {};
}

/// The host as a second device, on the cores that the first one leaves.
Status measure_host(Hardware& hardware, Machine& machine, std::int64_t room, std::string* note) {
  const CacheFile cache(
      "host", hardware.fingerprint + std::to_string(machine.host_threads()) + " of the host");
  PARBUCKLE_ASSIGN(
      const bool fresh,
      rate_device(cache, room, machine.host_ops(), *machine.host(), hardware.devices.back()));
  *note += fresh ? "measured the host; " : "";
  return {};
}

std::vector<Lane> drive_lanes(const DriveRates& rates) {
  constexpr double latency_s = 2e-4;
  return {{"nvme_read",
           LaneKind::nvme_read,
           latency_s,
           rates.read_bytes_per_s,
           rates.duplex_read_bytes_per_s,
           drive_engine},
          {"nvme_write",
           LaneKind::nvme_write,
           latency_s,
           rates.write_bytes_per_s,
           rates.duplex_write_bytes_per_s,
           drive_engine}};
}

Status find_drive(Hardware& hardware, const std::string& path) {
  PARBUCKLE_ASSIGN(const DriveSpace space, drive_space(path));
  hardware.tiers.push_back(
      {Tier::nvme, "nvme:" + path, space.capacity_bytes, space.free_bytes, space.limited_by});
  hardware.lanes = drive_lanes({nominal_rate, nominal_rate, nominal_rate, nominal_rate});
  return {};
}

Status measure_lanes(Hardware& hardware, const std::string& path, std::string* note) {
  std::error_code error;
  const CacheFile cache("drive", hardware.fingerprint + fs::canonical(path, error).string());
  Hardware cached = cache.read();
  if (cached.lanes.empty()) {
    PARBUCKLE_TRY(check_drive(path, probe_file_bytes));
    PARBUCKLE_ASSIGN(const DriveRates rates, measure_drive(path, probe_file_bytes));
    cached.lanes = drive_lanes(rates);
    cache.write(cached);
    *note += "measured the drive; ";
  }
  for (const Lane& lane : cached.lanes) {
    *std::find_if(hardware.lanes.begin(), hardware.lanes.end(), [&](const Lane& nominal) {
      return nominal.kind == lane.kind;
    }) = lane;
  }
  return {};
}

/// Adds what the cache of this purpose has and what it lacks; true: something was timed.
Result<bool> add_times(const CacheFile& cache,
                       const Measured& measured,
                       CalibrationScope scope,
                       OpTable ops,
                       Device& device,
                       Hardware& hardware) {
  Hardware cached = cache.read();
  scope.known = cached.program_times;
  PARBUCKLE_ASSIGN(std::vector<ProgramTime> fresh,
                   calibrate(scope, *measured.workload, measured.programs, ops, device));
  if (!fresh.empty()) {
    for (ProgramTime& time : fresh) {
      time.device = scope.what == Timed::updates ? 1 : 0;
    }
    cached.program_times.insert(cached.program_times.end(), fresh.begin(), fresh.end());
    cache.write(cached);
  }
  hardware.program_times.insert(
      hardware.program_times.end(), cached.program_times.begin(), cached.program_times.end());
  return !fresh.empty();
}

Status measure_programs(Hardware& hardware,
                        Machine& machine,
                        const Measured& measured,
                        std::int64_t room,
                        std::string* note) {
  const CacheFile cache("programs",
                        hardware.fingerprint + machine.signature() + measured.workload->signature);
  PARBUCKLE_ASSIGN(
      const bool timed,
      add_times(cache, measured, {.room = room}, machine.ops(), machine.device(), hardware));
  *note += timed ? "timed the programs; " : "";
  return {};
}

/// What the host's lane may run beside the device.
Status measure_updates(Hardware& hardware,
                       Machine& machine,
                       const Measured& measured,
                       std::int64_t room,
                       std::string* note) {
  const CacheFile cache(
      "updates",
      hardware.fingerprint + std::to_string(machine.host_threads()) + measured.workload->signature);
  PARBUCKLE_ASSIGN(const bool timed,
                   add_times(cache,
                             measured,
                             {.what = Timed::updates, .room = room},
                             machine.host_ops(),
                             *machine.host(),
                             hardware));
  *note += timed ? "timed the updates on the host; " : "";
  return {};
}

/// An emulated device is what it was told to be: its memory and its link.
void find_emulated(const EmulatedOptions& options, Hardware& hardware) {
  hardware.name = "this machine with an emulated device";
  hardware.devices.front().name = "emulated";
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

/// It computes at the processor's speed, slowed down.
void slow_down(double speed, Hardware& hardware) {
  ComputeDevice& device = hardware.devices.front();
  device.name = "emulated";
  device.flops_per_s *= speed;
  device.memory_bytes_per_s *= speed;
  for (ProgramTime& time : hardware.program_times) {
    time.seconds /= speed;
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

Result<Hardware> find_hardware(const MemoryConfig& config, const Machine& machine) {
  if (!config.hardware.empty()) {
    return declared(config.hardware);
  }
  Hardware hardware{.name = "this machine", .fingerprint = machine_fingerprint()};
  PARBUCKLE_ASSIGN(const TierCapacity host, host_memory());
  hardware.tiers.push_back(host);
  hardware.devices = {{.name = "cpu",
                       .cores = machine.threads(),
                       .instruction_set = machine.signature(),
                       .flops_per_s = nominal_rate,
                       .memory_bytes_per_s = nominal_rate}};
  if (!config.nvme_path.empty()) {
    PARBUCKLE_TRY(find_drive(hardware, config.nvme_path));
  }
  if (machine.emulated()) {
    find_emulated(*machine.emulated(), hardware);
  }
  if (machine.has_host()) {
    hardware.devices.push_back({.name = "cpu",
                                .cores = machine.host_threads(),
                                .instruction_set = "",
                                .flops_per_s = nominal_rate,
                                .memory_bytes_per_s = nominal_rate});
  }
  return hardware;
}

Status measure_hardware(const MemoryConfig& config,
                        Machine& machine,
                        const std::vector<Measured>& workloads,
                        std::int64_t room,
                        Hardware& hardware,
                        std::string* note) {
  if (!config.hardware.empty()) {
    return {};
  }
  std::string measured;
  PARBUCKLE_TRY(measure_device(hardware, machine, room, &measured));
  if (!config.nvme_path.empty()) {
    PARBUCKLE_TRY(measure_lanes(hardware, config.nvme_path, &measured));
  }
  for (const Measured& workload : workloads) {
    PARBUCKLE_TRY(measure_programs(hardware, machine, workload, room, &measured));
  }
  if (machine.emulated()) {
    slow_down(machine.emulated()->speed, hardware);
  }
  if (machine.has_host()) {
    PARBUCKLE_TRY(measure_host(hardware, machine, room, &measured));
    for (const Measured& workload : workloads) {
      if (!workload.workload->updates.empty()) {
        PARBUCKLE_TRY(measure_updates(hardware, machine, workload, room, &measured));
      }
    }
  }
  if (!measured.empty()) {
    *note += measured + "kept for later runs. ";
  }
  return {};
}

}  // namespace parbuckle
