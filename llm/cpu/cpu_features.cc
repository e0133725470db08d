#include "llm/cpu/cpu_features.h"

#include <hwy/highway.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#if HWY_ARCH_X86
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include "error/error.h"

namespace vesper {
namespace {

// The targets that Highway may use; sets them. In Highway 1.0 a query of the supported targets
// resets disabled ones.
int64_t usable_targets() {
  const int64_t targets = hwy::SupportedTargets();
  hwy::GetChosenTarget().Update(targets);
  return targets;
}

// The values of VESPER_CPU_TARGET, older CPUs first.
struct Limit {
  const char* name;
  int64_t hwy_targets;   // allowed targets
  CpuFeatures features;  // allowed features
};

#if HWY_ARCH_X86
constexpr int64_t kGeneric = HWY_STATIC_TARGET | HWY_SCALAR | HWY_EMU128;
constexpr int64_t kAvx2 = kGeneric | HWY_AVX2;
constexpr int64_t kAvx3 = kAvx2 | HWY_AVX3 | HWY_AVX3_DL;
constexpr std::array<Limit, 7> kLimits{{
    {"generic", kGeneric, {}},
    {"avx2", kAvx2, {.avx2 = true}},
    {"avx2_vnni", kAvx2, {.avx2 = true, .avx_vnni = true}},
    {"avx512", kAvx3, {.avx2 = true}},
    {"avx512_vnni", kAvx3, {.avx2 = true, .avx512_vnni = true}},
    {"avx512_bf16", kAvx3, {.avx2 = true, .avx512_vnni = true, .avx512_bf16 = true}},
    {"amx", kAvx3, {.avx2 = true, .avx512_vnni = true, .avx512_bf16 = true, .amx = true}},
}};

// Whether the kernel permits this process to use tile registers.
bool ask_for_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Throws Error(kDevice) on a CPU that is too old for all kernels.
CpuFeatures detect() {
  if (!__builtin_cpu_supports("sse4.2")) {
    throw Error(ErrorKind::kDevice, "cpu: expected a processor with SSE4.2, found " + cpu_name());
  }
  CpuFeatures found;
  const int64_t targets = usable_targets();
  unsigned a, b, c, d, a1, b1, c1, d1;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
  if (!__get_cpuid_count(7, 1, &a1, &b1, &c1, &d1)) return found;
  found.avx2 = (targets & HWY_AVX2) != 0;
  found.avx_vnni = found.avx2 && (a1 >> 4 & 1);
  if ((targets & HWY_AVX3) == 0) return found;
  found.avx512_vnni = c >> 11 & 1;
  found.avx512_bf16 = a1 >> 5 & 1;
  const bool tiles = (d >> 24 & 1) && (d >> 22 & 1) && (d >> 25 & 1);  // with bf16 and int8
  found.amx = found.avx512_bf16 && tiles && ask_for_tiles();
  return found;
}
#else
constexpr int64_t kGeneric = HWY_STATIC_TARGET | HWY_SCALAR | HWY_EMU128;
constexpr std::array<Limit, 1> kLimits{{{"generic", kGeneric, {}}}};
CpuFeatures detect() { return {}; }
#endif

CpuFeatures find_features() {
  const char* wanted = std::getenv("VESPER_CPU_TARGET");
  if (wanted == nullptr || *wanted == '\0') return detect();
  std::string names;
  for (const Limit& limit : kLimits) {
    if (std::string_view(wanted) == limit.name) {
      hwy::DisableTargets(~limit.hwy_targets);
      CpuFeatures features = detect();
      features.avx2 &= limit.features.avx2;
      features.avx_vnni &= limit.features.avx_vnni;
      features.avx512_vnni &= limit.features.avx512_vnni;
      features.avx512_bf16 &= limit.features.avx512_bf16;
      features.amx &= limit.features.amx;
      return features;
    }
    if (!names.empty()) names += ", ";
    names += limit.name;
  }
  throw Error(ErrorKind::kUsage,
              "VESPER_CPU_TARGET: expected one of " + names + ", found '" + wanted + "'");
}

// The contents of a small system file, empty if it is unreadable.
std::string read_system_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The folders of this process's cgroup for a controller, innermost first: of version 2, or of
// version 1's hierarchy of that name. Strings, because the process ends if memory runs out while
// std::filesystem::path joins names (libstdc++ 12).
std::vector<std::string> cgroup_folders(std::string_view controller) {
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> folders;
  std::istringstream lines(read_system_file("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    // "N:controller,controller:/path", without controllers in version 2.
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    const bool version_2 = second == first + 1;
    bool found = version_2;
    for (std::string name; std::getline(controllers, name, ',');) found |= name == controller;
    if (!found) continue;
    const std::string top = version_2 ? root : root + "/" + std::string(controller);
    std::string inside = line.substr(second + 1);  // begins with "/"
    while (inside.size() > 1) {
      folders.push_back(top + inside);
      inside.erase(std::min(inside.rfind('/'), inside.size()));
    }
    folders.push_back(top);
  }
  return folders;
}

// A line of /proc/meminfo in bytes; UINT64_MAX if it is absent.
uint64_t memory_of_kernel(std::string_view name) {
  std::istringstream lines(read_system_file("/proc/meminfo"));
  for (std::string line; std::getline(lines, line);) {
    const size_t digits = line.find_first_of("0123456789");
    if (!line.starts_with(name) || digits == std::string::npos) continue;
    if (const auto kib = parse_number(std::string_view(line).substr(digits))) {
      return static_cast<uint64_t>(*kib) * 1024;
    }
  }
  return std::numeric_limits<uint64_t>::max();
}

// Of a cgroup in bytes, of version 2 or 1; absent: none.
std::optional<int64_t> memory_limit(const std::string& folder) {
  const auto limit = parse_number(read_system_file(folder + "/memory.max"));
  return limit ? limit : parse_number(read_system_file(folder + "/memory.limit_in_bytes"));
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = find_features();
  return features;
}

uint32_t available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int64_t cores = sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask)
                                                                 : sysconf(_SC_NPROCESSORS_ONLN);
  for (const auto& folder : cgroup_folders("cpu")) {
    // Version 2: "QUOTA PERIOD" or "max PERIOD". Version 1: two files, -1 for no quota.
    std::string quota_text = read_system_file(folder + "/cpu.max"), period_text;
    if (const size_t space = quota_text.find(' '); space != std::string::npos) {
      period_text = quota_text.substr(space + 1);
    } else {
      quota_text = read_system_file(folder + "/cpu.cfs_quota_us");
      period_text = read_system_file(folder + "/cpu.cfs_period_us");
    }
    const auto quota = parse_number(quota_text), period = parse_number(period_text);
    if (quota && period && *quota > 0 && *period > 0) {
      cores = std::min(cores, *quota / *period + (*quota % *period != 0));
    }
  }
  return static_cast<uint32_t>(std::max<int64_t>(cores, 1));
}

std::string cpu_name() {
  std::istringstream lines(read_system_file("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU";
}

uint64_t available_memory_bytes() {
  uint64_t available = memory_of_kernel("MemAvailable:");
  for (const auto& folder : cgroup_folders("memory")) {
    const auto limit = memory_limit(folder);
    auto used = parse_number(read_system_file(folder + "/memory.current"));
    if (!used) used = parse_number(read_system_file(folder + "/memory.usage_in_bytes"));
    if (limit && used) {
      available = std::min(available, static_cast<uint64_t>(std::max<int64_t>(*limit - *used, 0)));
    }
  }
  return available;
}

uint64_t total_memory_bytes() {
  uint64_t total = memory_of_kernel("MemTotal:");
  for (const auto& folder : cgroup_folders("memory")) {
    if (const auto limit = memory_limit(folder)) {
      total = std::min(total, static_cast<uint64_t>(std::max<int64_t>(*limit, 0)));
    }
  }
  return total;
}

}  // namespace vesper
