#include "custom_ops/common/cpu/isa.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace tfjac {
namespace {

#if defined(TFJAC_ONLY_ISA)
Isa ChooseIsa() { return Isa::TFJAC_ONLY_ISA; }
#else
Isa DetectIsa() {
  __builtin_cpu_init();  // asks the operating system as well as the processor
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw")) {
    return Isa::avx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
  return Isa::baseline;
}

Isa ChooseIsa() {
  const Isa best = DetectIsa();
  const char* const wish = std::getenv("TFJAC_ISA");
  if (wish == nullptr) return best;
  for (Isa isa : {Isa::baseline, Isa::avx2}) {
    if (isa < best && std::strcmp(wish, IsaName(isa)) == 0) return isa;
  }
  return best;
}
#endif

}  // namespace

Isa BestIsa() {
  static const Isa isa = ChooseIsa();
  return isa;
}

const char* IsaName(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    default:
      return "baseline";
  }
}

}  // namespace tfjac

extern "C" __attribute__((visibility("default"))) const char* tfjac_instruction_set() {
  return tfjac::IsaName(tfjac::BestIsa());
}
