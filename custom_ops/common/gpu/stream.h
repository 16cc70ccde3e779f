// Where launchers run: a stream of the GPU, and workspace for them, of TensorFlow's op (support.h) or of XLA's call
// (call.h). Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_STREAM_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_STREAM_H_

#include <cstdint>
#include <functional>
#include <string>

#include "custom_ops/common/gpu/api.h"
#include "custom_ops/common/outcome.h"

namespace tfjac {

// The outcome for what a launcher of `op` returned.
inline Outcome OutcomeOfLaunch(const char* op, int code) {
  if (code == 0) return {};
  const bool missing = code == kNoCublas || code == kNoCusolver;
  return {missing ? Outcome::kFailedPrecondition : Outcome::kInternal,
          std::string(op) + " on the GPU: " + tfjac_cuda_error_message(code)};
}

// Where launchers enqueue their work: a cudaStream_t, and workspace in device memory. The workspace is given back when
// all is enqueued: its allocator lets nothing but later work on the same stream use it next.
class GpuStream {
 public:
  virtual ~GpuStream() = default;

  // Call launch(stream).
  template <typename Launch>
  Outcome Run(const char* op, Launch launch) {
    return OutcomeOfLaunch(op, launch(stream_));
  }

  // Call launch(stream, workspace), with as many bytes as workspace(stream, &bytes) asks for; null for none.
  template <typename Workspace, typename Launch>
  Outcome Run(const char* op, Workspace workspace, Launch launch) {
    const Body body = [&](void* memory) { return OutcomeOfLaunch(op, launch(stream_, memory)); };
    int64_t bytes = 0;
    const Outcome sized = OutcomeOfLaunch(op, workspace(stream_, &bytes));
    if (!sized.done()) return sized;
    return bytes > 0 ? WithWorkspace(bytes, body) : body(nullptr);
  }

 protected:
  using Body = std::function<Outcome(void* workspace)>;

  explicit GpuStream(void* stream) : stream_(stream) {}

 private:
  // Call body(workspace), the workspace as launchers expect it (api.h).
  virtual Outcome WithWorkspace(int64_t bytes, const Body& body) = 0;

  void* stream_;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_STREAM_H_
