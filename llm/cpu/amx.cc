#include "llm/cpu/amx.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "hwy/targets.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace vesper {
namespace {

#if defined(__x86_64__) && defined(__linux__)
bool cpu_and_kernel_have_amx() {
  unsigned a, b, c, d;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr unsigned kWanted = kBf16 | kTile | kInt8;
  if ((d & kWanted) != kWanted) return false;
  if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return false;
  constexpr unsigned kAvx512Bf16 = 1u << 5;
  if (!(a & kAvx512Bf16)) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
#else
bool cpu_and_kernel_have_amx() { return false; }
#endif

}  // namespace

bool amx_usable() {
  // oneDNN's answer honours DNNL_MAX_CPU_ISA, so one variable governs both.
  static const bool granted =
      cpu_and_kernel_have_amx() && (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) &
                                    static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx)) ==
                                       static_cast<unsigned>(dnnl::cpu_isa::avx512_core_amx);
#if HWY_ARCH_X86
  return granted && (hwy::SupportedTargets() & HWY_AVX3) != 0;
#else
  return granted;
#endif
}

}  // namespace vesper
