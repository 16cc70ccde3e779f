// Has the programs that XLA compiles for the CPU call the handlers for CUDA, whose launchers are the emulated ones: for
// LD_PRELOAD, before libtfjac_xla.so registers its handlers for the CPU. TFJAC_TEST_LIBRARY names libtfjac.so.
//
// A handler for CUDA asks XLA for a stream, of which XLA's CPU runtime has none, and for device memory. Both are given here.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "xla/ffi/api/c_api.h"

namespace {

// XLA refuses to align device memory to more than this. So does the allocator here; what it gives is aligned to no more.
constexpr size_t kMostAlignment = 16;

int calls = 0;
int64_t allocated = 0;
bool out_of_memory = false;
XLA_FFI_DeviceMemory_Allocate* refuse = nullptr;  // XLA's own, which on the CPU refuses always, and says why

XLA_FFI_Error* GetStream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = nullptr;  // which the emulation takes
  return nullptr;
}

XLA_FFI_Error* Allocate(XLA_FFI_DeviceMemory_Allocate_Args* args) {
  if (out_of_memory || args->alignment > kMostAlignment) return refuse(args);
  constexpr size_t kPage = 4096;
  const size_t size = (kMostAlignment + args->size + kPage - 1) / kPage * kPage;
  char* const memory = static_cast<char*>(std::aligned_alloc(kPage, size));
  std::memset(memory, 0xff, size);  // NaN: what the workspace held before must not matter
  args->data = memory + kMostAlignment;
  ++allocated;
  return nullptr;
}

XLA_FFI_Error* Free(XLA_FFI_DeviceMemory_Free_Args* args) {
  std::free(static_cast<char*>(args->data) - kMostAlignment);
  --allocated;
  return nullptr;
}

XLA_FFI_Error* CallOnCuda(const char* handler, XLA_FFI_CallFrame* frame) {
  static void* const library = dlopen(std::getenv("TFJAC_TEST_LIBRARY"), RTLD_LAZY | RTLD_NOLOAD);
  const auto call = reinterpret_cast<XLA_FFI_Handler*>(dlsym(library, handler));
  if (frame->extension_start != nullptr) return call(frame);  // asks what the handler is made for; no call
  refuse = frame->api->XLA_FFI_DeviceMemory_Allocate;
  XLA_FFI_Api api = *frame->api;
  api.XLA_FFI_Stream_Get = GetStream;
  api.XLA_FFI_DeviceMemory_Free = Free;
  api.XLA_FFI_DeviceMemory_Allocate = Allocate;
  XLA_FFI_CallFrame on_cuda = *frame;
  on_cuda.api = &api;
  ++calls;
  return call(&on_cuda);
}

}  // namespace

#define TFJAC_CALL_ON_CUDA(name)                                           \
  extern "C" XLA_FFI_Error* tfjac_##name##_f32(XLA_FFI_CallFrame* frame) { \
    return CallOnCuda("tfjac_" #name "_cuda_f32", frame);                  \
  }                                                                        \
  extern "C" XLA_FFI_Error* tfjac_##name##_f64(XLA_FFI_CallFrame* frame) { \
    return CallOnCuda("tfjac_" #name "_cuda_f64", frame);                  \
  }

TFJAC_CALL_ON_CUDA(damped_solve)
TFJAC_CALL_ON_CUDA(example_grams)
TFJAC_CALL_ON_CUDA(jacobian_gram)
TFJAC_CALL_ON_CUDA(jacobian_kernel)

// How many calls there have been, how many workspaces were not given back, and whether there is memory for any.
extern "C" int tfjac_test_calls() { return calls; }
extern "C" int64_t tfjac_test_allocated() { return allocated; }
extern "C" void tfjac_test_out_of_memory(bool out) { out_of_memory = out; }
