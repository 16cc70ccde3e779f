// Choosing the instruction set at run time.
//
// Every file *_cpu.cc is compiled once per instruction set that is wanted, with TFJAC_ISA naming the namespace that its code
// lives in and Eigen's namespace renamed alike, so that the linker can never merge code of one variant into another. For the
// same reason these files use no std:: containers or algorithms that might be emitted out of line.
//
//     // op.h                                                      // op_cpu.cc
//     TFJAC_PER_ISA(                                                namespace tfjac::TFJAC_ISA {
//         template <typename T>                                     template <typename T>
//         void Rows(const Factors<T>& f, T* rows);)                 void Rows(const Factors<T>& f, T* rows) { ... }
//                                                                   template void Rows(const Factors<float>&, float*);
//     // op_kernel.cc
//     TFJAC_BEST(Rows<float>)(factors, rows);
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_ISA_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_ISA_H_

namespace tfjac {

enum class Isa { baseline, avx2, avx512 };

// The instruction set that the library has, TFJAC_ONLY_ISA; of several, the best that the processor offers and the operating
// system lets through. Where there are several, the environment variable TFJAC_ISA (baseline, avx2 or avx512), read once, asks for a lesser one.
Isa BestIsa();
const char* IsaName(Isa isa);

}  // namespace tfjac

// clang-format off
#if defined(__x86_64__)
#define TFJAC_PER_ISA(...)               \
  namespace baseline { __VA_ARGS__ }     \
  namespace avx2 { __VA_ARGS__ }         \
  namespace avx512 { __VA_ARGS__ }
#else
#define TFJAC_PER_ISA(...) \
  namespace baseline { __VA_ARGS__ }
#endif

#if defined(TFJAC_ONLY_ISA)
#define TFJAC_BEST(...) (&TFJAC_ONLY_ISA::__VA_ARGS__)
#else
#define TFJAC_BEST(...)                                                \
  (::tfjac::BestIsa() == ::tfjac::Isa::avx512 ? &avx512::__VA_ARGS__ \
   : ::tfjac::BestIsa() == ::tfjac::Isa::avx2 ? &avx2::__VA_ARGS__   \
                                               : &baseline::__VA_ARGS__)
#endif
// clang-format on

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_ISA_H_
