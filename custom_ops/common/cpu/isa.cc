#include "custom_ops/common/cpu/isa.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace tfjac {
namespace {

Isa DetectIsa() {
#if defined(__x86_64__)
  __builtin_cpu_init();  // asks the operating system as well as the processor
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    return Isa::kAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::kAvx2;
#endif
  return Isa::kBaseline;
}

Isa ChooseIsa() {
  const Isa best = DetectIsa();
  const char* const wish = std::getenv("TFJAC_ISA");
  if (wish == nullptr) return best;
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2}) {
    if (isa < best && std::strcmp(wish, IsaName(isa)) == 0) return isa;
  }
  return best;
}

}  // namespace

Isa BestIsa() {
  static const Isa isa = ChooseIsa();
  return isa;
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    default:
      return "baseline";
  }
}

}  // namespace tfjac

extern "C" __attribute__((visibility("default"))) const char* tfjac_instruction_set() {
  return tfjac::IsaName(tfjac::BestIsa());
}
